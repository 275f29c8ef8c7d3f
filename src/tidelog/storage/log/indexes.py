"""The sparse indexes of a segment, in Kafka's format: offset to position, and timestamp to offset.

``.index`` holds 8-byte entries (relative offset of a batch's *last* record, position of the batch), about one
for every ``index.interval.bytes`` of the log; ``.timeindex`` 12-byte entries (largest timestamp so far,
relative offset of the last record of the batch that has it). Entries are strictly increasing in their first
field, so a lookup is a binary search.

Indexes can always be rebuilt from the log, therefore:

* indexes of the active segment are kept in memory and written to disk when it is sealed. Kafka maps the file
  instead, and dies of SIGBUS on a full disk;
* entries are not trusted: a reader that follows an entry checks that it leads to the right batch.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from tidelog.core.types import Millis, Offset
from tidelog.storage.durable import write_synced

RELATIVE_OFFSET_MAX = 2**31 - 1


class _SparseIndex:
    """Fixed-size entries: growing in memory, sealed in memory, or in a file that is mapped when needed."""

    __slots__ = ("_entries", "_folder", "_name", "_saved", "base_offset")

    entry: ClassVar[Struct]

    def __init__(self, folder: Path, name: str, base_offset: Offset) -> None:
        self._folder = folder
        self._name = name
        self.base_offset = base_offset
        self._entries: bytearray | bytes | mmap.mmap | None = None
        """None: only in the file."""
        self._saved: bytes | None = None
        """The sealed content that has been written to the file."""

    @property
    def path(self) -> Path:
        """Made when it is needed: of most segments never."""
        return self._folder / self._name

    def __len__(self) -> int:
        return len(self._buffer()) // self.entry.size

    @property
    def size(self) -> int:
        return len(self._buffer())

    def _buffer(self) -> bytearray | bytes | mmap.mmap:
        if self._entries is None:
            self._entries = _mapped(self.path)
        return self._entries

    def grow(self) -> bytearray:
        """The entries as a growing buffer, because the segment is being written to."""
        entries = self._entries
        if type(entries) is not bytearray:
            grown = bytearray(self._buffer())
            self._unmap()
            self._entries = entries = grown
        return entries

    def clear(self) -> None:
        self._unmap()
        self._entries = bytearray()

    def seal(self) -> bytes:
        """Stop adding entries. Returns the content for ``save``, which any thread may call."""
        content = bytes(self._buffer())
        self._unmap()
        self._entries = content
        return content

    def save(self, content: bytes) -> None:
        """Write the content that ``seal`` returned. If the index has grown since, memory stays
        authoritative."""
        write_synced(self.path, content)
        self._saved = content

    def save_unsaved(self) -> None:
        """Write the sealed content if no earlier write succeeded."""
        if type(self._entries) is bytes and self._entries is not self._saved:
            self.save(self._entries)

    def remove_file(self) -> None:
        """Remove the outdated file. Memory holds all entries."""
        self.grow()
        self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Free memory whose content is also in the file."""
        if isinstance(self._entries, mmap.mmap):
            self._unmap()
        elif type(self._entries) is bytes and self._entries is self._saved:
            self._entries = self._saved = None

    def _unmap(self) -> None:
        if isinstance(self._entries, mmap.mmap):
            self._entries.close()
            self._entries = None

    def file_fault(self) -> str | None:
        """Kafka's sanity check: why the file must be rebuilt, or None."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return "is missing"
        if size % self.entry.size:
            return f"has {size} bytes, not a multiple of {self.entry.size}"
        return None


class IndexEntry(NamedTuple):
    last_offset: Offset
    """Of the batch at ``position``."""
    position: int


class OffsetIndex(_SparseIndex):
    __slots__ = ()

    entry = Struct(">ii")

    def append(self, last_offset: Offset, position: int) -> None:
        entries = self._entries
        if type(entries) is not bytearray:
            entries = self.grow()
        entries += self.entry.pack(last_offset - self.base_offset, position)

    def at(self, slot: int) -> IndexEntry:
        relative, position = self.entry.unpack_from(self._buffer(), slot * 8)
        return IndexEntry(self.base_offset + relative, position)

    def lookup(self, offset: Offset) -> IndexEntry | None:
        """The last entry whose batch ends at or before ``offset``. None: the reader must search from the
        segment's start."""
        buffer, unpack, target = self._buffer(), self.entry.unpack_from, offset - self.base_offset
        slot = bisect_right(range(len(buffer) // 8), target, key=lambda slot: unpack(buffer, slot * 8)[0]) - 1
        return self.at(slot) if slot >= 0 else None

    def before(self, position: int) -> IndexEntry | None:
        """The last entry of a batch at or before ``position``."""
        buffer, unpack = self._buffer(), self.entry.unpack_from
        slot = (
            bisect_right(range(len(buffer) // 8), position, key=lambda slot: unpack(buffer, slot * 8)[1]) - 1
        )
        return self.at(slot) if slot >= 0 else None

    @property
    def last(self) -> IndexEntry | None:
        count = len(self)
        return self.at(count - 1) if count else None

    def truncate(self, position: int) -> None:
        """Forget the batches at or beyond ``position``."""
        entries = self.grow()
        count = len(entries) // 8
        while count and self.at(count - 1).position >= position:
            count -= 1
        del entries[count * 8 :]


class TimeEntry(NamedTuple):
    timestamp: Millis
    last_offset: Offset
    """Last offset of the batch with this timestamp, the largest so far."""


class TimeIndex(_SparseIndex):
    __slots__ = ()

    entry = Struct(">qi")

    def append(self, timestamp: Millis, last_offset: Offset) -> None:
        """Add the largest timestamp so far, unless the last entry has it already."""
        entries = self._entries
        if type(entries) is not bytearray:
            entries = self.grow()
        if entries and self.entry.unpack_from(entries, len(entries) - 12)[0] >= timestamp:
            return
        entries += self.entry.pack(timestamp, last_offset - self.base_offset)

    def at(self, slot: int) -> TimeEntry:
        timestamp, relative = self.entry.unpack_from(self._buffer(), slot * 12)
        return TimeEntry(timestamp, self.base_offset + relative)

    def lookup(self, timestamp: Millis) -> TimeEntry | None:
        """The last entry with an earlier or equal timestamp. Records with this timestamp or a later one are
        in its batch or after it. None: they may be anywhere in the segment."""
        buffer, unpack = self._buffer(), self.entry.unpack_from
        count = len(buffer) // 12
        slot = bisect_right(range(count), timestamp, key=lambda slot: unpack(buffer, slot * 12)[0]) - 1
        return self.at(slot) if slot >= 0 else None

    @property
    def last(self) -> TimeEntry | None:
        count = len(self)
        return self.at(count - 1) if count else None

    def truncate(self, end_offset: Offset) -> None:
        """Forget the batches at or beyond ``end_offset``."""
        entries = self.grow()
        count = len(entries) // 12
        while count and self.at(count - 1).last_offset >= end_offset:
            count -= 1
        del entries[count * 12 :]


def _mapped(path: Path) -> mmap.mmap | bytearray:
    """The memory-mapped content of a file; empty if the file does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return bytearray()
    try:
        # An empty file cannot be mapped.
        if os.fstat(descriptor).st_size == 0:
            return bytearray()
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
