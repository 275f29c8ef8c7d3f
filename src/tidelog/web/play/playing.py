"""A scenario text of a user, played under one or two generations: the page's only question.

The text is the only truth: a fork, a scenario made by clicking, a share link and a file are all just texts.
So there is one question, answered without remembering anything. Everything about the text may be wrong; what
is wrong is reported in one line, for the page to show.
"""

from __future__ import annotations

from typing import Any

from tidelog.core.generations import GENERATIONS
from tidelog.lab.compare import Comparison
from tidelog.scenario.line import ScenarioError
from tidelog.scenario.scenario import Scenario, parse
from tidelog.web.play.recording import record
from tidelog.web.play.watched_world import PlayTooLong

TEXT_CHARACTERS_MAX = 200_000
STEPS_MAX = 1_000


class CannotPlay(Exception):
    """The message says what is wrong with the request."""


def play(text: str, generation: str | None, against: str | None) -> dict[str, Any]:
    """One recording, or two and the first step after which they differ. Raises ``CannotPlay``."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise CannotPlay(f"this text is longer than {TEXT_CHARACTERS_MAX:,} characters: it is no scenario")
    for name in (generation, against):
        if name is not None and name not in GENERATIONS:
            raise CannotPlay(f"unknown generation {name!r}: choose one of {', '.join(GENERATIONS)}")
    try:
        scenario = parse(text, "scenario")
    except ScenarioError as error:
        raise CannotPlay(str(error).removeprefix("scenario: ")) from None
    if len(scenario.steps) > STEPS_MAX:
        raise CannotPlay(f"{len(scenario.steps)} steps are too many for the page: at most {STEPS_MAX}")
    return _recorded(scenario, generation or scenario.setup.generation, against)


def _recorded(scenario: Scenario, generation: str, against: str | None) -> dict[str, Any]:
    try:
        run, recording = record(scenario.under(generation))
        if against is None:
            return {"recording": recording}
        other_run, other = record(scenario.under(against))
    except PlayTooLong as limit:
        raise CannotPlay(f"the play was stopped: {limit}; shorten the waits, or take out steps") from None
    comparison = Comparison([generation, against], [run, other_run])
    return {"recording": recording, "against": other, "parts_at": comparison.parts_at}
