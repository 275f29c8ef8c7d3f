"""The words of a comparison of a topic with a table, for terminals and for the report, as phrases."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tidelog.narrate.phrasebook import Phrase, joined
from tidelog.pipeline.reconcile.facts import LOSSES, AbsenceCause, OffsetRange, Presence

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.result import Continuity

_FAULTS: Final = {
    Presence.TWICE: "table.fault_twice",
    Presence.DIFFERENT: "table.fault_different",
    Presence.UNCOMMITTED: "table.fault_uncommitted",
    Presence.BEYOND_END: "table.fault_beyond_end",
    Presence.NOT_DELETED: "table.fault_not_deleted",
}


def verdict(found: Continuity) -> Phrase:
    if found.held:
        if not found.conclusive:
            return Phrase("table.inconclusive")
        return Phrase("table.equal" if found.offsets else "table.nothing_new")
    faults = []
    if found.lost:
        faults.append(Phrase.of("table.offsets_lost", count=found.lost))
    faults += [Phrase.of(key, count=found.count(kind)) for kind, key in _FAULTS.items() if found.count(kind)]
    if found.nowhere:
        key = "table.unknown_key" if found.by_key else "table.without_place"
        faults.append(Phrase.of(key, count=found.nowhere))
    return Phrase.of("table.differs", faults=joined(faults, "table.and"))


def completeness(found: Continuity) -> str | None:
    """Of all days; None if the table should have nothing yet."""
    expected = sum(day.expected for day in found.days)
    return percent(sum(day.delivered for day in found.days) / expected) if expected else None


def causes(found: Continuity) -> list[tuple[int, Phrase]]:
    """How many offsets are absent for which cause; losses first."""
    absent = [(cause, found.count(cause)) for cause in AbsenceCause if found.count(cause)]
    return [
        (
            size,
            Phrase.of("table.cause_lost", cause=name(cause))
            if cause is AbsenceCause.UNEXPLAINED
            else name(cause),
        )
        for cause, size in sorted(absent, key=lambda each: each[0] not in LOSSES)
    ]


def oldest_gap(found: Continuity) -> Phrase | None:
    if (gap := found.oldest_gap) is None:
        return None
    partition, offset, time = gap
    place = f"{found.topic}-{partition}"
    if time is None:
        return Phrase.of("table.gap", partition=place, offset=offset)
    return Phrase.of("table.gap_at", partition=place, offset=offset, time=f"{time:%Y-%m-%d %H:%M}")


def lateness(found: Continuity) -> Phrase | None:
    if not (waiting := found.count(AbsenceCause.NOT_YET)):
        return None
    lasted = str(timedelta(seconds=int(found.late_seconds)))
    return Phrase.of("table.waited_for", count=waiting, lasted=lasted)


def percent(part: float) -> str:
    """Never 100 % unless it is."""
    return "100 %" if part >= 1 else f"{min(part * 100, 99.9999):.4f} %"


def offsets(found: OffsetRange) -> Phrase | str:
    if found.offsets == 1:
        return f"{found.start:,}"
    return Phrase.of("table.from_to", start=found.start, end=found.end - 1)


def name(fact: StrEnum) -> Phrase:
    """Of a presence or a cause."""
    return Phrase(f"{type(fact).__name__}.{fact.name}")
