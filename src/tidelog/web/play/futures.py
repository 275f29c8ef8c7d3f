"""When a story was decided, for the page: the shares of losing futures so far, several times a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.lab.search.futures import FUTURES_MAX, FutureOptions, Futures, no_futures, playing_futures
from tidelog.scenario.scenario import Scenario
from tidelog.web.play.playing import STEPS_MAX, CannotPlay
from tidelog.web.play.wanted import Wanted, often

Json = dict[str, Any]


def future_shares(wanted: Json) -> Iterator[Json]:
    """``{"played", "of", "steps", "shares", "decided_at"}`` again and again. In the last reply ``done`` is
    true. Raises ``CannotPlay``."""
    scenario, options = _asked(Wanted(wanted))
    found = no_futures(scenario)
    for played in often(playing_futures(scenario, options, found)):
        yield _reply(found, options, played)
    yield {**_reply(found, options, sum(found.played)), "done": True}


def _asked(wanted: Wanted) -> tuple[Scenario, FutureOptions]:
    scenario = wanted.scenario()
    if scenario is None:
        raise CannotPlay("the request holds no text to play")
    if len(scenario.steps) > STEPS_MAX:
        raise CannotPlay(f"{len(scenario.steps)} steps are too many for the page: at most {STEPS_MAX}")
    generation = wanted.generation(scenario.setup.generation)
    options = FutureOptions(
        futures=wanted.number("futures", FutureOptions().futures, 1, FUTURES_MAX), seed=wanted.seed()
    )
    return scenario.under(generation), options


def _reply(found: Futures, options: FutureOptions, played: int) -> Json:
    return {
        "played": played,
        "of": options.futures * len(found.played),
        "futures": min(found.played),
        "shares": [round(share, 4) for share in found.shares],
        "decided_at": found.decided_at,
    }
