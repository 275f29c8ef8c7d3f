"""What may be found of an offset, and why one is absent.

Rules of the file: the meaning of a name is defined here once; code decides by these names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Presence(StrEnum):
    """How the table has an offset."""

    ONCE = "once"
    ABSENT = "absent"
    TWICE = "twice"
    """Two rows or more."""
    DIFFERENT = "different bytes"
    """One row, but its value is not the record's."""
    UNCOMMITTED = "uncommitted"
    """A row of an aborted transaction, or at the offset of a control record."""
    BEYOND_END = "beyond the end"
    """A row at an offset that the topic does not reach: it was truncated."""
    EARLIER_TOPIC = "of an earlier topic"
    """The same, where the topic is known to have been deleted and created again."""
    NOT_DELETED = "not deleted"
    """By key: a row, though the last record of its key is a tombstone."""


class AbsenceCause(StrEnum):
    """Why the table does not have an offset. The first that holds, in this order."""

    MARKER = "transaction marker"
    """The offset belongs to a control record, which no consumer is given."""
    ABORTED = "aborted"
    OPEN = "open transaction"
    """At or behind the last stable offset: readers of committed records do not get it yet."""
    UNREADABLE = "unreadable"
    """The batch in the log folder is damaged, so what it held is unknown."""
    SUPERSEDED = "superseded"
    """By key: a later record has the same key, and the table has one row for each key."""
    DELETED = "deleted by a tombstone"
    """By key: the last record of the key is a tombstone, so the table has no row."""
    NO_KEY = "without a key"
    """By key: the record has none, so no row can be found for it."""
    NOT_YET = "not yet in the table"
    """Behind the end of the streaming query, or without a checkpoint behind the last row of the partition."""
    BEFORE_QUERY = "before the query started"
    """Below the starting offsets of the streaming query."""
    RECREATED = "topic recreated"
    TRUNCATED = "truncated"
    """An earlier run, another replica or the query saw the offset, and the log ends before it now."""
    SKIPPED = "skipped by failOnDataLoss=false"
    """Has left the topic, and the query committed a batch of which it and all before it are absent: retention
    takes the beginning of what is there, so the batch found it gone. Or the query found another topic, and
    went on behind what that had by then."""
    BEFORE_LOG_START = "before log start"
    """Retention or DeleteRecords. It may have been a record, a marker, or nothing."""
    COMPACTED = "compacted"
    MAINTENANCE = "removed by table maintenance"
    """The history of the table has a delete or an overwrite, and an earlier version of it has the row."""
    UNEXPLAINED = "unexplained"
    """The topic has the record and the table does not: lost in the pipeline."""


LOSSES: Final = frozenset({AbsenceCause.SKIPPED, AbsenceCause.UNEXPLAINED})
"""Causes of which the pipeline is accused. All others are named and excuse the table."""
UNDECIDED: Final = frozenset({AbsenceCause.UNREADABLE, AbsenceCause.NO_KEY})
"""Causes with which the rest of the verdict cannot be conclusive."""
FAULTS: Final = frozenset(
    {
        Presence.TWICE,
        Presence.DIFFERENT,
        Presence.UNCOMMITTED,
        Presence.BEYOND_END,
        Presence.NOT_DELETED,
    }
)
"""What no table that equals its topic has."""


@dataclass(slots=True, frozen=True)
class OffsetRange:
    """Offsets of one partition that share a fate, `end` exclusive."""

    partition: int
    start: int
    end: int
    presence: Presence
    cause: AbsenceCause | None = None

    @property
    def offsets(self) -> int:
        return self.end - self.start

    @property
    def accused(self) -> bool:
        """Whether it speaks against the pipeline."""
        return self.presence in FAULTS or self.cause in LOSSES
