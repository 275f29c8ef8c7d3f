"""Carries out a schedule: does each fault at its time, undoes it at its time, and writes down both.

It runs in a thread of its own and does one thing after the other. What takes long, such as the start of a
broker that recovers its logs, puts off everything after it by as much: faults keep their order, their length
and the time between them, the last ones may not be reached, and the evidence says when each really happened.
However the trial ends, everything that was done is undone: first the keeper comes back, without which no
broker can start; and what lost power stays away for as long as planned, because no machine is back at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults.base import Absence
from tidelog.faults.schedule import PlannedFault
from tidelog.faults.targets import read_targets, said
from tidelog.faults.testbed import FaultFailed, HealingTestbed

_AT_ONCE_SECONDS: Final = 0.3
"""What is done later than that puts off what comes next, so that no fault is much shorter than planned."""
_POWER_BACK_SECONDS_MAX: Final = 60.0
"""At the end of a trial nothing is waited for any longer."""


@dataclass(slots=True, frozen=True)
class _Moment:
    at_ms: int
    begins: bool
    fault: PlannedFault


class FaultJournal(Protocol):
    """Where it is written down: a row when a fault begins, and one when it ends or failed."""

    def write(self, row: Row) -> None: ...


class Nemesis:
    def __init__(
        self,
        bed: HealingTestbed,
        schedule: Sequence[PlannedFault],
        journal: FaultJournal,
        *,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`say` is called with each fault, in the nemesis's thread."""
        self._bed = bed
        self._journal = journal
        self._say = say
        self._moments = _moments(schedule)
        self._stop = threading.Event()
        self._active: dict[int, PlannedFault] = {}
        self._began: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self.done = 0
        """Faults that were really done."""
        self.failure: str | None = None
        """Why it gave up, if it did."""

    def start(self) -> None:
        """From now on times are counted."""
        self._started = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Do nothing more; returns when whatever is being done is done."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def heal(self) -> list[str]:
        """Undo everything. What could not be undone."""
        self.stop()
        for fault in sorted(self._active.values(), key=lambda fault: TRIAL_FAULTS[fault.kind].heal_rank):
            if TRIAL_FAULTS[fault.kind].missed:
                planned = min(fault.duration_ms / 1000, _POWER_BACK_SECONDS_MAX)
                time.sleep(max(self._began[fault.number] + planned - time.monotonic(), 0.0))
            self._end(fault)
        return self._bed.heal()

    def active(self) -> list[PlannedFault]:
        return list(self._active.values())

    # ------------------------------------------------------------ one after the other

    def _run(self) -> None:
        try:
            self._carry_out()
        except OSError as error:
            self.failure = f"the nemesis cannot write down what it does: {reason(error)}"

    def _carry_out(self) -> None:
        for moment in self._moments:
            if self._stop.wait(max(moment.at_ms / 1000 - (time.monotonic() - self._started), 0.0)):
                return
            if moment.begins:
                self._begin(moment.fault)
            elif moment.fault.number in self._active:
                self._end(moment.fault)
            late = time.monotonic() - self._started - moment.at_ms / 1000
            if late > _AT_ONCE_SECONDS:
                self._started += late

    def _begin(self, fault: PlannedFault) -> None:
        row = {
            "number": fault.number,
            "kind": fault.kind,
            "targets": list(fault.targets),
            "planned_ms": fault.at_ms,
            "planned_duration_ms": fault.duration_ms,
        }
        # Written down first: if we die while doing it, the evidence says that it may have been done.
        self._journal.write(row | {"began_us": _now_us()})
        self._say(said(fault.kind, fault.targets))
        self._active[fault.number] = fault
        self._began[fault.number] = time.monotonic()
        try:
            TRIAL_FAULTS[fault.kind].inject(self._bed, read_targets(fault.targets))
        except FaultFailed as error:
            self._journal.write({"number": fault.number, "began_us": None, "error": str(error)})
            self._active.pop(fault.number)
            return
        self.done += 1
        if _is_over_at_once(fault):
            self._end(fault)

    def _end(self, fault: PlannedFault) -> None:
        self._active.pop(fault.number, None)
        try:
            TRIAL_FAULTS[fault.kind].undo(self._bed, read_targets(fault.targets))
        except FaultFailed as error:
            self._journal.write({"number": fault.number, "error": str(error)})
            return
        self._journal.write({"number": fault.number, "ended_us": _now_us()})


def _moments(schedule: Sequence[PlannedFault]) -> list[_Moment]:
    """Beginnings and ends in order; where both fall on one moment, ends first."""
    moments = []
    for fault in schedule:
        moments.append(_Moment(fault.at_ms, True, fault))
        if not _is_over_at_once(fault):
            moments.append(_Moment(fault.end_ms, False, fault))
    return sorted(
        moments, key=lambda m: (m.at_ms, m.begins and m.fault.duration_ms > 0, m.fault.number, not m.begins)
    )


def _is_over_at_once(fault: PlannedFault) -> bool:
    return TRIAL_FAULTS[fault.kind].away is Absence.NOTHING


def _now_us() -> int:
    return time.time_ns() // 1000
