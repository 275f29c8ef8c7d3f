"""What will be done to a cluster and when: drawn from a seed before the trial begins, and kept with it.

A schedule is plain data, times in ms after the beginning of the load. The same seed and settings give the
same schedule; a schedule from a file is carried out as it is. What the drawing respects: never more brokers
down, paused or cut off at once than allowed, and each of them back before it is hit again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

VERSION: Final = 1

WEIGHTS: Final = {"kill": 4, "pause": 3, "restart": 2, "cut": 3, "zone": 2, "keeper": 1, "elect": 1}
"""Kinds of faults, and how often each is chosen against the others."""

DISABLING: Final = frozenset(("kill", "pause", "restart", "cut", "zone"))
"""Kinds that take a broker away for a while."""

_FIRST_MS: Final = 1_000
_PAUSE_BETWEEN_MS: Final = 1_000
"""A broker that is back has at least so long until it is hit again."""


class ScheduleError(Exception):
    """The file is no schedule. The message is one line that says why."""


@dataclass(slots=True, frozen=True)
class Fault:
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


def draw(seed: int, settings: FaultSettings, zones: Mapping[int, str], total_ms: int) -> list[Fault]:
    """Faults for a load of `total_ms` on these brokers, in these zones; the last ones end with it."""
    dice = random.Random(seed)
    everyone = tuple(zones)
    kinds = [kind for kind in WEIGHTS if kind in settings.kinds]  # in a fixed order
    faults: list[Fault] = []
    busy: dict[int, int] = dict.fromkeys(everyone, 0)
    """When each broker may be hit again."""
    at = min(_FIRST_MS, total_ms // 4)
    while kinds and at < total_ms:
        away = sum(until - _PAUSE_BETWEEN_MS > at for until in busy.values())
        free = [broker for broker in everyone if busy[broker] <= at] if away < settings.down_max else []
        # A zone can be cut off if all of its brokers may be.
        whole = [
            zone
            for zone in dict.fromkeys(zones.values())
            if away + list(zones.values()).count(zone) <= settings.down_max
            and all(broker in free for broker in everyone if zones[broker] == zone)
        ]
        possible = [kind for kind in kinds if (whole if kind == "zone" else free) or kind not in DISABLING]
        if possible:
            (kind,) = dice.choices(possible, [settings.weights[kind] for kind in possible])
            duration = min(_duration(dice, kind, settings.session_ms), total_ms - at)
            targets: tuple[str, ...] = ()
            if kind == "zone":
                zone = dice.choice(whole)
                busy |= {b: at + duration + _PAUSE_BETWEEN_MS for b in everyone if zones[b] == zone}
                targets = (zone,)
            elif kind in DISABLING:
                broker = dice.choice(free)
                busy[broker] = at + duration + _PAUSE_BETWEEN_MS
                targets = _links(dice, broker, everyone) if kind == "cut" else (str(broker),)
            elif kind == "keeper":
                targets = ("keeper",)
            faults.append(Fault(len(faults), kind, targets, at, duration))
        at += int(settings.every_ms * dice.uniform(0.5, 1.5))
    return faults


def _duration(dice: random.Random, kind: str, session_ms: int) -> int:
    if kind == "elect":
        return 0
    if kind == "restart":
        return dice.randrange(0, session_ms)
    if dice.random() < 0.3:  # too short for anybody to be elected meanwhile
        return dice.randrange(session_ms // 10, session_ms)
    return dice.randrange(session_ms, 3 * session_ms)


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


# ---------------------------------------------------------------- files


def as_json(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    return [asdict(fault) | {"targets": list(fault.targets)} for fault in faults]


def from_file(path: Path, zones: Mapping[int, str]) -> list[Fault]:
    """The schedule of a file: as `trial.json` of an earlier trial holds it, or that whole file."""
    try:
        found = json.loads(path.read_text("utf-8"))
        rows = found["schedule"] if isinstance(found, dict) else found
        faults = [
            Fault(number, row["kind"], tuple(map(str, row["targets"])), row["at_ms"], row["duration_ms"])
            for number, row in enumerate(sorted(rows, key=lambda row: row["at_ms"]))
        ]
    except OSError as error:
        raise ScheduleError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, LookupError, TypeError):
        raise ScheduleError(
            f"{path} holds no schedule: expected a trial.json, or its list 'schedule'"
        ) from None
    known = {*map(str, zones), *zones.values(), "keeper"}
    for fault in faults:
        if fault.kind not in WEIGHTS or min(fault.at_ms, fault.duration_ms) < 0:
            raise ScheduleError(f"{path}: fault {fault.number} cannot be: {fault.kind} at {fault.at_ms} ms")
        for name in (name for target in fault.targets for name in target.split(">")):
            if name not in known:
                raise ScheduleError(f"{path}: fault {fault.number} is about {name}, which there is not")
    return faults
