"""Fault schedules for the body of a test: drawn from a seed, written as one line, and made smaller.

One line holds a whole schedule, for a marker and for the command line:

    kill 1 @750+2300; cut 1>2 2>1 @1200+800

Each fault is its name as in `tidelog trial --faults`, its targets, when it begins (ms after the body does)
and how long it lasts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidelog.errors import Refusal, unknown
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults import schedule as schedules
from tidelog.faults.schedule import FaultSettings, PlannedFault

Schedule = tuple[PlannedFault, ...]

_FAULT: Final = re.compile(r"(?P<words>\S+(?: \S+)*?) ?@(?P<at>\d+)\+(?P<duration>\d+)")
_FAULTS_IN_A_RUN: Final = 3
_SHORTEST_MS: Final = 100


def kinds(names: Sequence[str] | None) -> tuple[str, ...]:
    """The faults to draw from; by default those of a trial. Raises `Refusal`."""
    for name in names or ():
        if name not in TRIAL_FAULTS:
            raise unknown("fault", name, tuple(TRIAL_FAULTS))
    return tuple(names or (name for name, fault in TRIAL_FAULTS.items() if fault.by_default))


def draw(
    seed: int, names: tuple[str, ...], zones: Mapping[int, str], seconds: float, session_ms: int
) -> Schedule:
    """A schedule of a few faults that begin within `seconds`. The same seed gives the same schedule."""
    total_ms = int(seconds * 1000)
    settings = FaultSettings(
        names, every_ms=max(total_ms // _FAULTS_IN_A_RUN, 1), session_ms=session_ms, min_insync=2
    )
    # Some faults last as long as a session, at least: a schedule is drawn longer, and what begins too late is
    # left out.
    drawn = schedules.draw(seed, settings, zones, total_ms + 2 * session_ms)
    shift = min((fault.at_ms for fault in drawn), default=0) - total_ms // 4
    begun = (replace(fault, at_ms=max(fault.at_ms - max(shift, 0), 0)) for fault in drawn)
    return _numbered([fault for fault in begun if fault.at_ms <= total_ms])


def written(schedule: Schedule) -> str:
    return "; ".join(
        f"{' '.join((fault.kind, *fault.targets))} @{fault.at_ms}+{fault.duration_ms}" for fault in schedule
    )


def parsed(text: str) -> Schedule:
    """The schedule of a line. Raises `Refusal`."""
    faults = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        found = _FAULT.fullmatch(part)
        if found is None:
            raise Refusal(f"schedule {part!r}: expected a fault like 'kill 1 @750+2300'")
        kind, *targets = found["words"].split()
        if kind not in TRIAL_FAULTS:
            raise unknown("fault", kind, tuple(TRIAL_FAULTS))
        faults.append(PlannedFault(0, kind, tuple(targets), int(found["at"]), int(found["duration"])))
    if not faults:
        raise Refusal("an empty schedule: give faults like 'kill 1 @750+2300'")
    return _numbered(faults)


def _numbered(faults: Sequence[PlannedFault]) -> Schedule:
    return tuple(
        replace(fault, number=number)
        for number, fault in enumerate(sorted(faults, key=lambda fault: fault.at_ms))
    )


# ---------------------------------------------------------------- shrinking


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], may_go_on: Callable[[], bool]) -> Schedule:
    """A smaller schedule under which it still fails: fewer faults, then shorter ones. `fails` runs the test;
    `may_go_on` is asked before each run."""
    for smaller in (_with_fewer, _with_shorter):
        found = True
        while found:
            found = False
            for candidate in smaller(schedule):
                if not may_go_on():
                    return schedule
                if fails(candidate):
                    schedule, found = candidate, True
                    break
    return schedule


def _with_fewer(schedule: Schedule) -> Iterator[Schedule]:
    """Half of the faults first, then all but one."""
    half = len(schedule) // 2
    if half > 1:
        yield _numbered(schedule[:half])
        yield _numbered(schedule[half:])
    if len(schedule) > 1:
        for number in reversed(range(len(schedule))):
            yield _numbered([*schedule[:number], *schedule[number + 1 :]])


def _with_shorter(schedule: Schedule) -> Iterator[Schedule]:
    for number, fault in enumerate(schedule):
        shorter = fault.duration_ms // 2
        if shorter >= _SHORTEST_MS:
            yield _numbered(
                [*schedule[:number], replace(fault, duration_ms=shorter), *schedule[number + 1 :]]
            )
