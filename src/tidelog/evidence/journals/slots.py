"""A journal of fixed-size rows in a memory-mapped file: every row survives a kill of the writer.

    4096 bytes of JSON (table, capacity, columns, constants), then column after column, each `capacity` values
    long, and at the end one byte for each row, its mark: 0 until the row is complete.

Or *packed*, where stores must be few: the columns that are named `packed` lie beside each other, row after
row, so that one `struct` stores them; other columns follow, for what is rarely stored. There are no marks: a
row is complete once its `sent_us` is there, the last of what is stored first, and settled once its `mark` is,
the last of the rest. Several threads may fill rows, so a kill may leave an incomplete one between others.

Rules of the file:

* A store into the mapping needs no system call and no flush: after `kill -9` the operating system has every
  byte. So an entry costs about a microsecond. (A crash of the machine loses what the kernel had not written
  back; trials kill processes, not their own machine.)
* A row's mark is stored last, so a marked row is complete. Rows are filled in order; the marked ones come
  first.
* Zeros mean absent: a number that may be absent is stored plus one, or its zero means absent, and an absent
  text is empty. A time in microseconds may be stored in nanoseconds, as the clock gives it.
* Space is allocated when the file is created. A full disk raises OSError then, and never SIGBUS later.
* The writer holds a lock on the file as long as it lives. A reader that gets the lock sees all rows.
* The last byte of the first 4096 says how the file ended (`Ending`). It is allocated like the rows, so it can
  be stored when the disk is full.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

SUFFIX: Final = ".slots"
HEADER_BYTES: Final = 4096
VERSION: Final = 1
PACKED_VERSION: Final = 2
_ENDING_AT: Final = HEADER_BYTES - 1

_NumberCode = Literal["b", "i", "I", "q"]
Absent = Literal["never", "zero", "plus_one", "nanoseconds"]


class Ending(IntEnum):
    """How a file ended. Trials do not use it."""

    OPEN = 0
    """It did not: its writer runs, or was killed."""
    FINISHED = 1
    """The writer goes on in another file, or is done."""
    STOPPED = 2
    """The writer went on without recording: what it did after the last row is not known."""


class CorruptSlots(Exception):
    """The file is not a journal. The message names file and reason in one line."""


class StillWritten(Exception):
    """A running process is writing this file."""


@dataclass(slots=True, frozen=True)
class SlotColumn:
    """`code` is one of struct's: b, i, I, q, `24s` for text of at most 24 bytes, or `25p` for the same with
    its length in front."""

    name: str
    code: str
    absent: Absent = "never"

    @property
    def is_text(self) -> bool:
        return self.code[-1] in "sp"

    @property
    def has_length(self) -> bool:
        return self.code[-1] == "p"

    @property
    def width(self) -> int:
        return struct.calcsize(self.code)


class Slots:
    """One file. A writer stores through `column` and `text_start`, then completes the row in `marks`."""

    def __init__(self, path: Path, mapped: mmap.mmap, header: dict[str, Any]) -> None:
        self.path = path
        self.mapped = mapped
        self.table: str = header["table"]
        self.capacity: int = header["capacity"]
        self.constants: dict[str, Any] = header["constants"]
        self.columns = {name: SlotColumn(name, code, absent) for name, code, absent in header["columns"]}
        self._view = memoryview(mapped)
        self._starts: dict[str, int] = {}
        packed = [self.columns[name] for name in header.get("packed", ())]
        self.stride = sum(column.width for column in packed)
        """The bytes of a packed row, which start at `HEADER_BYTES`; 0: this file has columns only."""
        start = HEADER_BYTES
        for column in packed:
            self._starts[column.name] = start
            start += column.width
        start = HEADER_BYTES + self.stride * self.capacity
        for column in self.columns.values():
            if column not in packed:
                self._starts[column.name] = start
                start += column.width * self.capacity
        self._packed = frozenset(column.name for column in packed)
        self.marks = self._view[start : start + self.capacity]

    # ------------------------------------------------------------ create and open

    @classmethod
    def create(
        cls,
        path: Path,
        table: str,
        columns: tuple[SlotColumn, ...],
        constants: dict[str, Any],
        capacity: int,
        *,
        packed: tuple[SlotColumn, ...] = (),
    ) -> Self:
        """A new file with room for `capacity` rows. OSError if there is no space, or no folder."""
        if sys.byteorder != "little":
            raise OSError("journals are written on little-endian machines only")
        if capacity % 8:
            raise ValueError("a capacity is a multiple of 8, so that all columns are aligned")
        # Widest first, which keeps every number of a column aligned.
        all_columns = [*packed, *sorted(columns, key=lambda c: (-c.width, c.name))]
        header: dict[str, Any] = {
            "version": PACKED_VERSION if packed else VERSION,
            "table": table,
            "capacity": capacity,
            "columns": [(c.name, c.code, c.absent) for c in all_columns],
            "constants": constants,
        }
        if packed:
            header["packed"] = [column.name for column in packed]
        text = json.dumps(header).encode()
        if len(text) >= HEADER_BYTES - 1:
            raise ValueError(f"the constants of {path.name} take more than {HEADER_BYTES} bytes")
        size = _size(header)
        unfinished = path.with_name(f".{path.name}.tmp")
        fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(fd, 0, size)
            if packed:
                # Memory of a file that was written to is mapped in larger pieces, so rows cost fewer faults.
                os.pwrite(fd, bytes(size), 0)
            os.pwrite(fd, text, 0)
            # The mapping has a copy of the descriptor, and with it the lock.
            mapped = mmap.mmap(fd, size)
            os.rename(unfinished, path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        return cls(path, mapped, json.loads(text))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file whose writer has ended. Raises `StillWritten` or `CorruptSlots`."""
        fd = os.open(path, os.O_RDWR)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StillWritten(f"{path} is being written by a process that still runs") from None
            header = _header(path, os.pread(fd, HEADER_BYTES, 0))
            size = _size(header)
            if os.fstat(fd).st_size != size:
                raise CorruptSlots(f"{path} has not the size that its first bytes promise")
            return cls(path, mmap.mmap(fd, size), header)
        finally:
            os.close(fd)

    @classmethod
    def watch(cls, path: Path) -> Self:
        """Open a file for reading while a process may be writing it. Raises `CorruptSlots`, or an OSError if
        the file was sealed and removed."""
        fd = os.open(path, os.O_RDONLY)
        try:
            header = _header(path, os.pread(fd, HEADER_BYTES, 0))
            return cls(path, mmap.mmap(fd, 0, access=mmap.ACCESS_READ), header)
        finally:
            os.close(fd)

    def release(self) -> None:
        """Unmap the file and release its lock. No view of it may be in use."""
        self.marks.release()
        self._view.release()
        self.mapped.close()

    @property
    def ending(self) -> Ending:
        return Ending(self.mapped[_ENDING_AT])

    @ending.setter
    def ending(self, ending: Ending) -> None:
        self.mapped[_ENDING_AT] = ending

    # ------------------------------------------------------------ contents

    def column(self, name: str) -> memoryview[int]:
        """The numbers of a column, to be assigned by row."""
        column = self.columns[name]
        return self._bytes(column).cast(cast(_NumberCode, column.code))

    def text_start(self, name: str) -> int:
        """The position in `mapped` at which the texts of a column start."""
        return self._starts[name]

    def bytes_of(self, name: str, rows: int) -> memoryview:
        """The first rows of a column as they are in the file; of a packed one a copy."""
        column = self.columns[name]
        if name not in self._packed:
            return self._bytes(column)[: rows * column.width]
        start, copied = self._starts[name], bytearray(rows * column.width)
        for at in range(column.width):
            end = start + rows * self.stride
            copied[at :: column.width] = self.mapped[start + at : end : self.stride]
        return memoryview(copied)

    @property
    def packed_rows(self) -> memoryview:
        """All packed rows, for `struct` to store into."""
        return self._view[HEADER_BYTES : HEADER_BYTES + self.stride * self.capacity]

    def _bytes(self, column: SlotColumn) -> memoryview:
        start = self._starts[column.name]
        return self._view[start : start + column.width * self.capacity]

    def rows(self) -> int:
        """The number of complete rows; of a packed file up to its last complete one."""
        if self.stride:
            sent = self.bytes_of("sent_us", self.capacity).cast("q")
            return next((row + 1 for row in range(self.capacity - 1, -1, -1) if sent[row]), 0)
        end = self.mapped.find(b"\0", len(self.mapped) - self.capacity)
        return self.capacity if end < 0 else end - (len(self.mapped) - self.capacity)


def _header(path: Path, data: bytes) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(data[:_ENDING_AT].rstrip(b"\0"))
        version = header["version"]
    except (ValueError, LookupError, TypeError):
        raise CorruptSlots(f"{path} is not a journal of a trial") from None
    if version not in (VERSION, PACKED_VERSION):
        raise CorruptSlots(f"{path} was written by another version of tidelog (format {version})")
    return header


def _size(header: Mapping[str, Any]) -> int:
    widths = sum(struct.calcsize(code) for _, code, _ in header["columns"])
    return HEADER_BYTES + int(header["capacity"]) * (widths + (0 if "packed" in header else 1))


def slot_files(folder: Path) -> list[Path]:
    """The journals in a folder, by name."""
    return sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
