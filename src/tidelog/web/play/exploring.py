"""A search on the page: schedules are played until one breaks an invariant, and that one is shrunk.

Replies come several times a second, while it shrinks with the smallest story so far. So the page can show how
far it is, and a reader who stops it keeps what there is. Nothing is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.errors import unknown
from tidelog.lab.invariants import INVARIANTS
from tidelog.lab.search.finding_file import as_file, named
from tidelog.lab.search.schedule import ALL_FAULT_KINDS, USUAL_KINDS, FaultChoice, Violation
from tidelog.lab.search.search import SearchOptions, SearchResult, searching
from tidelog.lab.search.shrink import shrinking
from tidelog.scenario.scenario import print_scenario
from tidelog.scenario.setup import SetupError
from tidelog.web.play.playing import CannotPlay
from tidelog.web.play.wanted import Wanted, often

Json = dict[str, Any]

SCHEDULES_MAX = 100_000
BROKERS_MAX = 9
ACKS = {"0": 0, "1": 1, "all": -1}
_CLAIMS = {invariant.name: invariant.claim for invariant in INVARIANTS}


def explore(wanted: Json) -> Iterator[Json]:
    """``{"searched", "schedules", "broken", "found"?}`` again and again. In the last reply ``done`` is true.
    Raises ``CannotPlay``."""
    options = _options(wanted)
    result = SearchResult()
    found: Json = {}
    for searched in often(searching(options, result)):
        yield _reply(options, result, searched, found)
    if result.finding is None:
        yield {**_reply(options, result, result.schedules, found), "done": True}
        return
    finding = result.finding
    of = len(finding.scenario.steps)
    for finding in often(shrinking(result.finding)):
        found = _found(finding, options, of, print_scenario(named(finding, options).scenario))
        yield _reply(options, result, result.schedules, found)
    found = {**_found(finding, options, of, _text(named(finding, options), options)), "shrunk": True}
    yield {**_reply(options, result, result.schedules, found), "done": True}


def _text(finding: Violation, options: SearchOptions) -> str:
    """The file that ``tidelog explore`` would write. What began in the middle of a story no command finds
    again."""
    if options.story is not None:
        return print_scenario(finding.scenario)
    return as_file(finding, options, shrunk=True, path=f"{finding.scenario.name}.scenario")


def _reply(options: SearchOptions, result: SearchResult, searched: int, found: Json) -> Json:
    reply: Json = {"searched": searched, "schedules": options.schedules, "broken": dict(result.broken)}
    return {**reply, "found": found} if found else reply


def _found(finding: Violation, options: SearchOptions, of: int, text: str) -> Json:
    return {
        "invariant": finding.invariant,
        "claim": _CLAIMS.get(finding.invariant, ""),
        "message": finding.message,
        "grade": finding.grade.name.lower(),
        "generation": options.generation,
        "steps": len(finding.scenario.steps),
        "steps_as_found": of,
        "shrunk": False,
        "text": text,
    }


# ---------------------------------------------------------------- what is searched


def _faults(wanted: Wanted) -> FaultChoice:
    kinds = wanted.fields.get("faults", list(USUAL_KINDS))
    if not isinstance(kinds, list):
        raise CannotPlay("faults must be a list")
    for kind in kinds:
        if kind not in ALL_FAULT_KINDS:
            raise CannotPlay(str(unknown("fault", str(kind), ALL_FAULT_KINDS)))
    return FaultChoice(tuple(kinds), wanted.number("budget", 6, 0, 100))


def _options(fields: Json) -> SearchOptions:
    wanted = Wanted(fields)
    acks = ACKS[wanted.one_of("acks", "all", tuple(ACKS))]
    options = SearchOptions(
        generation=wanted.generation("epoch"),
        strategy=wanted.one_of("strategy", "random", ("random", "pct")),
        schedules=wanted.number("schedules", 10_000, 1, SCHEDULES_MAX),
        seed=wanted.seed(),
        brokers=wanted.number("brokers", 3, 1, BROKERS_MAX),
        replicas=wanted.number("replicas", 3, 1, BROKERS_MAX),
        acks=acks,
        min_insync=wanted.number("min_insync", 1, 1, BROKERS_MAX),
        unclean=wanted.flag("unclean"),
        idempotent=wanted.flag("idempotent"),
        flush_always=wanted.flag("flush_always"),
        operations=wanted.number("operations", 20, 1, 200),
        faults=_faults(wanted),
        story=wanted.story(),
    )
    if options.idempotent and acks != -1:
        raise CannotPlay("an idempotent producer needs acks=all, as in Kafka")
    try:
        options.scenario()
    except SetupError as error:
        raise CannotPlay(str(error)) from None
    return options
