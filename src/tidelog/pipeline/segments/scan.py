"""A segment file in chunks of whole batches, with words for every place where there is none.

Rules of the file:

* Memory is bounded: a chunk has `CHUNK_BYTES`, or one batch if that is larger, and a batch of more than
  `BATCH_BYTES_MAX` is stepped over. Nothing a file says about itself is believed beyond its size.
* Only where batches begin and end is looked at here. A place that is no batch ends the scan, because nothing
  says where the next one would begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidelog.pipeline.files import Source
from tidelog.pipeline.segments.varints import PADDING
from tidelog.wire.batch import HEADER_SIZE, LENGTH_END, MAGIC

CHUNK_BYTES: Final = 4 << 20
BATCH_BYTES_MAX: Final = 128 << 20

_LENGTH_MAGIC = Struct(">8xi4xb")
_OFFSET = Struct(">q")
_BATCH_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_END
_OLD_MAGICS: Final = (0, 1)
_OLD_LENGTH_MIN: Final = 14
"""CRC, magic, attributes and the lengths of key and value."""


@dataclass(slots=True, frozen=True)
class Chunk:
    """Batches in `data`, behind which there is padding; `file_position` is that of its first byte."""

    data: bytes
    file_position: int
    starts: list[int]
    ends: list[int]


@dataclass(slots=True, frozen=True)
class Problem:
    """A place that cannot be read. `base_offset` is what a header there claims."""

    position: int
    words: str
    base_offset: int | None = None
    crc_ok: bool | None = None
    torn: bool = False
    """The file ends inside of what begins here."""


def scan(
    source: Source, start: int, end: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk | Problem]:
    """The batches between two positions of a file, `start` being that of the first."""
    position, wanted = start, chunk_bytes
    while position < end:
        size = min(wanted, end - position)
        data = source.read_at(size, position)
        if not data:
            yield Problem(position, "the file became shorter while it was read")
            return
        starts, ends = whole_batches(data)
        at = ends[-1] if ends else 0
        left = end - position - at
        if len(starts) > 1 and len(data) == size and left:
            # The last one is read again with its follower, which tells whether its offset can be right.
            position_of_last = position + starts.pop()
            ends.pop()
            yield Chunk(data + bytes(PADDING), position, starts, ends)
            position, wanted = position_of_last, max(chunk_bytes, 2 * (at - position_of_last + position))
            continue
        if starts:
            yield Chunk(data + bytes(PADDING), position, starts, ends)
        position += at
        if not left:
            return
        step = _step(data, at, position, left)
        if isinstance(step, Problem):
            yield step
            return
        if step.problem:
            yield step.problem
        position += step.over
        wanted = max(chunk_bytes, step.wanted)


def whole_batches(data: bytes) -> tuple[list[int], list[int]]:
    """Where batches begin and end, as far as they follow each other in `data` as a whole."""
    unpack = _LENGTH_MAGIC.unpack_from
    starts, ends = [], []
    at, limit = 0, len(data)
    last_start = limit - HEADER_SIZE
    while at <= last_start:
        length, magic = unpack(data, at)
        end = at + LENGTH_END + length
        if magic != MAGIC or length < _BATCH_LENGTH_MIN or end > limit:
            break
        starts.append(at)
        ends.append(end)
        at = end
    return starts, ends


@dataclass(slots=True, frozen=True)
class _Step:
    """How to go on: skip `over` bytes, then read `wanted` bytes at once."""

    over: int = 0
    wanted: int = 0
    problem: Problem | None = None


def _step(data: bytes, at: int, position: int, left: int) -> _Step | Problem:
    """What to make of the place where the batches of a chunk end: `left` bytes of the file follow."""
    if left < _LENGTH_MAGIC.size:
        return Problem(position, f"the file ends inside a header: {left} bytes are left", torn=True)
    if len(data) - at < _LENGTH_MAGIC.size:
        return _Step(wanted=HEADER_SIZE)
    length, magic = _LENGTH_MAGIC.unpack_from(data, at)
    (base_offset,) = _OFFSET.unpack_from(data, at)
    size = LENGTH_END + length
    if magic in _OLD_MAGICS and length >= _OLD_LENGTH_MIN and size <= left:
        return _old_messages(data, at, position, left)
    if magic != MAGIC or length < _BATCH_LENGTH_MIN:
        found = "no batch" if any(data[at : at + HEADER_SIZE]) else "nothing but zeros"
        return Problem(position, f"there is {found} here: the {left} bytes from here on are not read")
    if size > left:
        words = f"the file ends inside a batch: {size} bytes, it says, but {left} are left"
        return Problem(position, words, base_offset, torn=True)
    if size > BATCH_BYTES_MAX:
        words = f"a batch of {size} bytes: more than the {BATCH_BYTES_MAX} that are read at once"
        return _Step(size, problem=Problem(position, words, base_offset))
    return _Step(wanted=size)


def _old_messages(data: bytes, at: int, position: int, left: int) -> _Step:
    """Step over messages of an old format, as many as follow each other in `data`: one problem for all."""
    (base_offset,) = _OFFSET.unpack_from(data, at)
    begin, count, oldest = at, 0, _LENGTH_MAGIC.unpack_from(data, at)[1]
    while len(data) - at >= _LENGTH_MAGIC.size:
        length, magic = _LENGTH_MAGIC.unpack_from(data, at)
        size = LENGTH_END + length
        if magic not in _OLD_MAGICS or length < _OLD_LENGTH_MIN or size > left - (at - begin):
            break
        count += 1
        at += size
    what = "a message" if count == 1 else f"{count} messages"
    words = f"{what} of format {oldest}, as Kafka wrote before 0.11: not read"
    return _Step(at - begin, problem=Problem(position, words, base_offset))
