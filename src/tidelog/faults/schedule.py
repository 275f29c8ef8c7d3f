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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.faults import sequences

VERSION: Final = 1

WEIGHTS: Final = {
    "kill": 4,
    "power": 2,
    "pause": 3,
    "restart": 2,
    "cut": 3,
    "delay": 1,
    "hold": 1,
    "zone": 2,
    "keeper": 2,
    "full": 1,
    "slow": 1,
    "clock": 1,
    "elect": 1,
}
"""Kinds of faults, and how often each is chosen against the others."""

KEEPER_MEMBERS: Final = ("keeper-1", "keeper-2", "keeper-3")
_WITH_AMOUNT: Final = ("delay", "slow", "clock")
_RESTARTING: Final = ("kill", "power", "restart", "clock")
_SEQUENCE_SHARE: Final = 0.35
_MAJORITY_SHARE: Final = 0.6
"""Of the losses of keepers, so many take the majority; the others one member of three."""
_FIRST_MS: Final = 1_000
_PAUSE_BETWEEN_MS: Final = 1_000
"""A broker that is back has at least so long until it is hit again."""


class ScheduleError(Exception):
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
    weights: Mapping[str, int] = field(default_factory=lambda: WEIGHTS)
    sequence: str | None = None
    """Is the first thing that happens, and then now and then, whatever `down_max` says."""


def draw(seed: int, settings: FaultSettings, zones: Mapping[int, str], total_ms: int) -> list[PlannedFault]:
    """Faults for a load of `total_ms` on these brokers, in these zones; the last ones end with it."""
    dice = random.Random(seed)
    kinds = [kind for kind in WEIGHTS if kind in settings.kinds]  # in a fixed order
    sequence = settings.sequence if len(zones) >= sequences.BROKERS_MIN else None
    calendar = _Calendar(zones, settings.down_max)
    faults: list[PlannedFault] = []
    at = min(_FIRST_MS, total_ms // 4)
    while kinds and at < total_ms:
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
        (kind,) = dice.choices(kinds, [settings.weights[kind] for kind in kinds])
        duration = min(_duration(dice, kind, settings.session_ms), total_ms - at)
        if kind == "elect":
            faults.append(PlannedFault(len(faults), kind, (), at, 0))
        elif kind == "keeper":
            members = ("keeper",) if dice.random() < _MAJORITY_SHARE else (dice.choice(KEEPER_MEMBERS),)
            duration = calendar.keeper_away(at, duration)
            if duration > 0:
                faults.append(PlannedFault(len(faults), kind, members, at, duration))
        elif group := calendar.choose(dice, kind, at):
            duration = min(calendar.away(group, kind, at, duration), total_ms - at)
            targets = _targets(dice, kind, group, zones)
            if kind != "power" or duration >= settings.session_ms:
                faults.append(PlannedFault(len(faults), kind, targets, at, duration))
        at += int(settings.every_ms * dice.uniform(0.5, 1.5))
    return faults


class _Calendar:
    """Who is away until when."""

    def __init__(self, zones: Mapping[int, str], down_max: int) -> None:
        self._zones = zones
        self._down_max = down_max
        self._back_at = dict.fromkeys(zones, -_PAUSE_BETWEEN_MS)
        self._starting_at: list[int] = []
        """When brokers are started again, for which they need the keeper."""
        self._keeper_back_at = 0

    def choose(self, dice: random.Random, kind: str, at: int) -> list[int]:
        """A broker, or the brokers of a zone, that may be taken away now; none if nobody may."""
        away = sum(back > at for back in self._back_at.values())
        free = [broker for broker, back in self._back_at.items() if back + _PAUSE_BETWEEN_MS <= at]
        groups = [[broker] for broker in free]
        if kind == "zone":
            zones = dict.fromkeys(self._zones.values())
            groups = [[b for b, zone in self._zones.items() if zone == wanted] for wanted in zones]
        groups = [g for g in groups if away + len(g) <= self._down_max and set(g) <= set(free)]
        return dice.choice(groups) if groups else []

    def away(self, group: list[int], kind: str, at: int, duration: int) -> int:
        """Take them away; for how long. Nobody is started while there is no keeper to register with."""
        if kind in _RESTARTING:
            duration = max(duration, self._keeper_back_at + 1 - at)
            self._starting_at.append(at + duration)
        self._back_at |= dict.fromkeys(group, at + duration)
        return duration

    def all_back_at(self, at: int) -> int:
        """When everybody is back, the keeper included."""
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


def _duration(dice: random.Random, kind: str, session_ms: int) -> int:
    if kind == "elect":
        return 0
    if kind == "restart":
        return dice.randrange(0, session_ms)
    if kind != "power" and dice.random() < 0.3:  # too short for anybody to be elected meanwhile
        return dice.randrange(session_ms // 10, session_ms)
    return dice.randrange(session_ms, 2 * session_ms)


def _targets(dice: random.Random, kind: str, group: list[int], zones: Mapping[int, str]) -> tuple[str, ...]:
    if kind == "zone":
        return (zones[group[0]],)
    if kind == "cut":
        return _links(dice, group[0], tuple(zones))
    if kind == "delay":
        links = [f"{group[0]}>{other}" for other in zones if other != group[0]]
        return (*links, f"{dice.choice((20, 100, 400))}ms")
    if kind == "hold":
        return tuple(f"{group[0]}>{other}" for other in zones if other != group[0])
    if kind == "slow":
        return (str(group[0]), f"{dice.choice((50, 300, 1_000))}ms")
    if kind == "clock":
        return (str(group[0]), f"{dice.choice((-3_600_000, -30_000, 30_000, 3_600_000)):+}ms")
    return (str(group[0]),)


def _links(dice: random.Random, broker: int, everyone: tuple[int, ...]) -> tuple[str, ...]:
    """What is cut: a broker from all others and the keeper, from the others only, or from the keeper only;
    sometimes in one direction only."""
    others = [str(other) for other in everyone if other != broker]
    peers = {"all": [*others, "keeper"], "brokers": others, "keeper": ["keeper"]}[
        dice.choice(("all", "brokers", "keeper"))
    ]
    away = [f"{broker}>{peer}" for peer in peers]
    back = [f"{peer}>{broker}" for peer in peers]
    return tuple(dice.choice(((*away, *back), (*away, *back), away, back)))


def amount_ms(fault: PlannedFault) -> int | None:
    """By how much a link or a disk is slow, or a clock wrong: the last of its targets."""
    last = fault.targets[-1] if fault.targets else ""
    try:
        return int(last.removesuffix("ms")) if last.endswith("ms") else None
    except ValueError:
        return None


def nodes(fault: PlannedFault) -> tuple[str, ...]:
    """Whom or which links it concerns."""
    return fault.targets if amount_ms(fault) is None else fault.targets[:-1]


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
                number, row["kind"], tuple(map(str, row["targets"])), row["at_ms"], row["duration_ms"]
            )
            for number, row in enumerate(sorted(rows, key=lambda row: row["at_ms"]))
        ]
    except OSError as error:
        raise ScheduleError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, LookupError, TypeError):
        raise ScheduleError(
            f"{path} holds no schedule: expected a trial.json, or its list 'schedule'"
        ) from None
    known = {*map(str, zones), *zones.values(), "keeper", *KEEPER_MEMBERS}
    for fault in faults:
        if fault.kind not in WEIGHTS or min(fault.at_ms, fault.duration_ms) < 0:
            raise ScheduleError(f"{path}: fault {fault.number} cannot be: {fault.kind} at {fault.at_ms} ms")
        if (fault.kind in _WITH_AMOUNT) != (amount_ms(fault) is not None):
            raise ScheduleError(
                f"{path}: fault {fault.number} ({fault.kind}): expected targets like 1, 300ms"
            )
        for name in (name for target in nodes(fault) for name in target.split(">")):
            if name not in known:
                raise ScheduleError(f"{path}: fault {fault.number} is about {name}, which there is not")
    return faults
