"""Entries of the keeper's journal as bytes, and how to read a file of them after a crash.

One group commit writes one entry: marker, length of the body, number, CRC32C of all that follows the marker,
body. Entries are numbered without gaps, and each is written only when the one before it is on disk. Hence a
crash can damage only the last entry, and one rule separates a crash from a damaged disk: a bad entry with a
good one after it means a damaged disk. (A commit must be *one* entry: of several entries in one write the
disk may keep the second and lose the first.)

The body is JSON in ASCII, so the marker, whose first byte is not ASCII, cannot occur inside one.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

MARKER = b"\xffTKL"
_HEADER = Struct(">4sIQI")
_CHECKED = Struct(">IQ")


class Entry(NamedTuple):
    number: int
    body: bytes
    end: int
    """Where the next one begins."""


class Damaged(Exception):
    """A bad entry that is not the result of a crash. The message names the position."""


def pack(number: int, body: bytes) -> bytes:
    checksum = crc32c(body, crc32c(_CHECKED.pack(len(body), number)))
    return _HEADER.pack(MARKER, len(body), number, checksum) + body


def read(data: bytes, first: int) -> tuple[list[Entry], int]:
    """The entries of a file, which must begin with number ``first``, and the end of the last good one."""
    entries: list[Entry] = []
    position = 0
    while position < len(data):
        expected = first + len(entries)
        entry = _entry_at(data, position)
        if entry is None or entry.number != expected:
            _check_nothing_follows(data, position, expected)
            break
        entries.append(entry)
        position = entry.end
    return entries, position


def _entry_at(data: bytes, position: int) -> Entry | None:
    if len(data) - position < _HEADER.size:
        return None
    marker, length, number, checksum = _HEADER.unpack_from(data, position)
    start = position + _HEADER.size
    end = start + length
    if marker != MARKER or end > len(data):
        return None
    body = data[start:end]
    if checksum != crc32c(body, crc32c(_CHECKED.pack(length, number))):
        return None
    return Entry(number, body, end)


def _check_nothing_follows(data: bytes, position: int, expected: int) -> None:
    """After a crash no good entry can follow the incomplete one."""
    later = data.find(MARKER, position)
    while later >= 0:
        entry = _entry_at(data, later)
        if entry is not None:
            where = f"entry {expected} at byte {position} is unreadable"
            raise Damaged(f"{where}, and entry {entry.number} at byte {later} is not")
        later = data.find(MARKER, later + 1)
