"""The leader-epoch cache (KIP-101, KIP-279): which leader epoch began at which offset.

Kafka's ``LeaderEpochFileCache`` without its lock, file and scheduler. Entries are strictly increasing in both
epoch and start offset; ``leader-epoch-checkpoint`` stores these pairs. A leader adds its pair when it starts
to lead, a follower learns epochs only from the records it fetches.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset


class EpochEntry(NamedTuple):
    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The answer to "where does this epoch end?": the epoch that was found, and its exclusive end."""

    epoch: LeaderEpoch
    end_offset: Offset


UNDEFINED_END = EpochEnd(NO_EPOCH, UNKNOWN_OFFSET)


class EpochCache:
    __slots__ = ("_entries",)

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._entries: list[EpochEntry] = list(entries) if entries else []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that ``epoch`` begins at ``start_offset``.

        An epoch keeps its first start. Entries that the new one contradicts (not older, or not starting below
        it) never held a record that survived, so they are removed: both fields must stay increasing.
        """
        entries = self._entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which the record at ``offset`` was, or will be, written."""
        for entry in reversed(self._entries):
            if entry.start_offset <= offset:
                return entry.epoch
        return NO_EPOCH

    def end_offset_for(self, asked: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """Where the largest epoch ≤ ``asked`` ends, in a log that ends at ``log_end_offset``."""
        entries = self._entries
        if asked == NO_EPOCH or not entries:
            # The follower has no epochs: it must use its high watermark.
            return UNDEFINED_END
        if asked == entries[-1].epoch:
            # The current epoch has no end yet but the end of the log.
            return EpochEnd(asked, log_end_offset)
        if asked > entries[-1].epoch:
            # An epoch newer than this log. Guessing could keep a stale suffix, so refuse.
            return UNDEFINED_END
        if asked < entries[0].epoch:
            # Older than every entry: the follower's records of it end before the first entry here.
            return EpochEnd(asked, entries[0].start_offset)
        found = NO_EPOCH
        for entry in entries:
            if entry.epoch > asked:
                return EpochEnd(found, entry.start_offset)
            found = entry.epoch
        raise AssertionError("unreachable: asked is below the latest epoch")

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Remove every epoch that ended before ``start_offset``; the epoch of that offset now starts
        there."""
        entries = self._entries
        while len(entries) > 1 and entries[1].start_offset <= start_offset:
            del entries[0]
        if entries and entries[0].start_offset < start_offset:
            entries[0] = EpochEntry(entries[0].epoch, start_offset)

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Remove every epoch that starts at or after ``end_offset``: its records are truncated.

        An epoch that starts exactly at the end holds no record yet; as in Kafka it is removed too.
        """
        entries = self._entries
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
