"""What will be done to a cluster and when: drawn from a seed before the trial begins, and kept with it.

A schedule is plain data, times in ms after the beginning of the load. The same seed and settings give the
same schedule; a schedule from a file is carried out as it is. What the drawing respects: never more brokers
down, paused or cut off at once than allowed, each of them back before it is hit again, and none that lost
power back before it is missed: with what it lost it must not lead on (KIP-966).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.errors import Refusal
from tidelog.faults import TRIAL_FAULTS, sequences
from tidelog.faults.base import Absence, Fault, Grounds
from tidelog.faults.keeper import MEMBERS
from tidelog.faults.places import KEEPER
from tidelog.faults.targets import amount_ms, places

VERSION: Final = 1

_SEQUENCE_SHARE: Final = 0.35
_FIRST_MS: Final = 1_000
_PAUSE_BETWEEN_MS: Final = 1_000
"""A broker that is back has at least so long until it is hit again."""


class ScheduleError(Refusal):
    """The file is no schedule. The message is one line that says why."""


@dataclass(slots=True, frozen=True)
class PlannedFault:
    number: int
    kind: str
    targets: tuple[str, ...]
    at_ms: int
    duration_ms: int

    @property
    def end_ms(self) -> int:
        return self.at_ms + self.duration_ms


@dataclass(slots=True, frozen=True)
class FaultSettings:
    kinds: tuple[str, ...]
    every_ms: int = 4_000
    """One fault in so long, on average."""
    down_max: int = 1
    session_ms: int = 3_000
    """After so long a broker that is away counts as dead. Some faults are shorter than this, most longer."""
    min_insync: int = 1
    """Of the topic that the load goes to."""
    sequence: str | None = None
    """Is the first thing that happens, and then now and then, whatever `down_max` says."""


def draw(seed: int, settings: FaultSettings, zones: Mapping[int, str], total_ms: int) -> list[PlannedFault]:
    """Faults for a load of `total_ms` on these brokers, in these zones; the last ones end with it."""
    dice = random.Random(seed)
    grounds = Grounds(zones, settings.min_insync)
    drawn = [fault for name, fault in TRIAL_FAULTS.items() if name in settings.kinds]  # in a fixed order
    sequence = settings.sequence if len(zones) >= sequences.BROKERS_MIN else None
    calendar = _Calendar(zones, settings.down_max)
    faults: list[PlannedFault] = []
    at = min(_FIRST_MS, total_ms // 4)
    while drawn and at < total_ms:
        if sequence is not None and (not faults or dice.random() < _SEQUENCE_SHARE):
            begins = calendar.all_back_at(at)
            suffered = sequences.steps(sequence, dice, list(zones), settings.session_ms)
            ends = begins + max(step.after_ms + step.duration_ms for step in suffered)
            if ends <= total_ms:
                for kind, targets, after_ms, duration in suffered:
                    faults.append(PlannedFault(len(faults), kind, targets, begins + after_ms, duration))
                calendar.all_away(ends)
                at = ends + _PAUSE_BETWEEN_MS
                continue
        (fault,) = dice.choices(drawn, [fault.weight for fault in drawn])
        duration = min(fault.duration_ms(dice, settings.session_ms), total_ms - at)
        group: list[int] = []
        if fault.away is Absence.BROKERS:
            group = calendar.choose(dice, fault, grounds, at)
            duration = min(calendar.away(group, fault, at, duration), total_ms - at) if group else -1
        targets = fault.draw(dice, group, grounds) if duration >= 0 else ()
        if fault.away is Absence.KEEPER:
            duration = calendar.keeper_away(at, duration) or -1
        if duration >= (settings.session_ms if fault.missed else 0):
            faults.append(PlannedFault(len(faults), fault.name, targets, at, duration))
        at += int(settings.every_ms * dice.uniform(0.5, 1.5))
    return faults


class _Calendar:
    """Who is away until when."""

    def __init__(self, zones: Iterable[int], down_max: int) -> None:
        self._down_max = down_max
        self._back_at = dict.fromkeys(zones, -_PAUSE_BETWEEN_MS)
        self._starting_at: list[int] = []
        """When brokers are started again, for which they need the keeper."""
        self._keeper_back_at = 0

    def choose(self, dice: random.Random, fault: Fault, grounds: Grounds, at: int) -> list[int]:
        """Brokers that may be taken away now, together; none if there are no such brokers."""
        away = sum(back > at for back in self._back_at.values())
        free = {broker for broker, back in self._back_at.items() if back + _PAUSE_BETWEEN_MS <= at}
        groups = [
            group
            for group in fault.groups(grounds)
            if free.issuperset(group) and (fault.exceeds_down_max or away + len(group) <= self._down_max)
        ]
        return dice.choice(groups) if groups else []

    def away(self, group: list[int], fault: Fault, at: int, duration: int) -> int:
        """Take them away; for how long. No broker is started while there is no keeper to register with."""
        if fault.restarts:
            duration = max(duration, self._keeper_back_at + 1 - at)
            self._starting_at.append(at + duration)
        self._back_at |= dict.fromkeys(group, at + duration)
        return duration

    def all_back_at(self, at: int) -> int:
        """When all brokers and the keeper are back."""
        return max(at, self._keeper_back_at + 1, *(b + _PAUSE_BETWEEN_MS for b in self._back_at.values()))

    def all_away(self, until: int) -> None:
        self._back_at = dict.fromkeys(self._back_at, until)

    def keeper_away(self, at: int, duration: int) -> int:
        """Take the keeper away, and bring it back before the next broker is started; for how long."""
        if at <= self._keeper_back_at:
            return 0
        next_start = min((start for start in self._starting_at if start >= at), default=at + duration + 1)
        duration = min(duration, next_start - 1 - at)
        if duration > 0:
            self._keeper_back_at = at + duration
        return duration


# ---------------------------------------------------------------- files


def as_json(faults: Iterable[PlannedFault]) -> list[dict[str, Any]]:
    return [asdict(fault) | {"targets": list(fault.targets)} for fault in faults]


def from_file(path: Path, zones: Mapping[int, str]) -> list[PlannedFault]:
    """The schedule of a file: as `trial.json` of an earlier trial holds it, or that whole file."""
    try:
        found = json.loads(path.read_text("utf-8"))
        rows = found["schedule"] if isinstance(found, dict) else found
        faults = [
            PlannedFault(
                number,
                str(row["kind"]),
                tuple(map(str, row["targets"])),
                int(row["at_ms"]),
                int(row["duration_ms"]),
            )
            for number, row in enumerate(sorted(rows, key=lambda row: int(row["at_ms"])))
        ]
    except OSError as error:
        raise ScheduleError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, LookupError, TypeError):
        raise ScheduleError(
            f"{path} holds no schedule: expected a trial.json, or its list 'schedule'"
        ) from None
    known = {*map(str, zones), *zones.values(), KEEPER, *MEMBERS}
    for fault in faults:
        known_fault = TRIAL_FAULTS.get(fault.kind)
        if known_fault is None or min(fault.at_ms, fault.duration_ms) < 0:
            raise ScheduleError(f"{path}: fault {fault.number} cannot be: {fault.kind} at {fault.at_ms} ms")
        if known_fault.has_amount != (amount_ms(fault.targets) is not None):
            raise ScheduleError(
                f"{path}: fault {fault.number} ({fault.kind}): expected targets like 1, 300ms"
            )
        for name in (name for target in places(fault.targets) for name in target.split(">")):
            if name not in known:
                raise ScheduleError(f"{path}: fault {fault.number} is about {name}, which there is not")
    return faults
