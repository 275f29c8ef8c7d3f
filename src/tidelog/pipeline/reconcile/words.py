"""The words of a comparison of a topic with a table, for terminals and for the report."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidelog.narrate.numbers import counted
from tidelog.pipeline.reconcile.facts import LOSSES, AbsenceCause, OffsetRange, Presence

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.result import Continuity

_FAULTS: Final = {
    Presence.TWICE: "twice",
    Presence.DIFFERENT: "with other bytes",
    Presence.UNCOMMITTED: "of aborted transactions or control records",
    Presence.BEYOND_END: "beyond the end of the topic",
    Presence.NOT_DELETED: "with a key that was deleted",
}


def verdict(found: Continuity) -> str:
    if found.held:
        if not found.conclusive:
            return "Inconclusive: a part of the topic cannot be read."
        if not found.offsets:
            return "Nothing new to judge."
        return "The table has every committed record of the topic that it should have by now, once."
    faults = []
    if found.lost:
        faults.append(f"{counted(found.lost, 'offset')} lost in the pipeline")
    faults += [f"{found.count(kind):,} {words}" for kind, words in _FAULTS.items() if found.count(kind)]
    if found.nowhere:
        lack = "whose key the topic does not have" if found.by_key else "without a partition or an offset"
        faults.append(f"{counted(found.nowhere, 'row')} {lack}")
    return f"The table does not equal its topic: {', '.join(faults)}."


def completeness(found: Continuity) -> str | None:
    """Of all days; None if the table should have nothing yet."""
    expected = sum(day.expected for day in found.days)
    return percent(sum(day.delivered for day in found.days) / expected) if expected else None


def causes(found: Continuity) -> list[tuple[int, str]]:
    """How many offsets are absent for which cause; losses first."""
    absent = [(cause, found.count(cause)) for cause in AbsenceCause if found.count(cause)]
    return [
        (size, f"{cause}: lost in the pipeline" if cause is AbsenceCause.UNEXPLAINED else str(cause))
        for cause, size in sorted(absent, key=lambda each: each[0] not in LOSSES)
    ]


def oldest_gap(found: Continuity) -> str | None:
    if (gap := found.oldest_gap) is None:
        return None
    partition, offset, time = gap
    when = f", {time:%Y-%m-%d %H:%M} UTC" if time else ""
    return f"{found.topic}-{partition} offset {offset:,}{when}"


def lateness(found: Continuity) -> str | None:
    if not (waiting := found.count(AbsenceCause.NOT_YET)):
        return None
    late = timedelta(seconds=int(found.late_seconds))
    return f"{counted(waiting, 'offset')} not yet in the table, the oldest {late} behind the topic"


def percent(part: float) -> str:
    """Never 100 % unless it is."""
    return "100 %" if part >= 1 else f"{min(part * 100, 99.9999):.4f} %"


def offsets(found: OffsetRange) -> str:
    return f"{found.start:,}" if found.offsets == 1 else f"{found.start:,} to {found.end - 1:,}"


def range_words(topic: str, found: OffsetRange) -> str:
    return f"{topic}-{found.partition} {offsets(found)}: {found.presence}" + (
        f", {found.cause}" if found.cause else ""
    )
