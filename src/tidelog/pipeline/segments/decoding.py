"""From chunks of batches to rows: which batches can be read together, and what becomes of the others.

Batches are taken in the order of the file. Those that are whole and not compressed are decoded where they
are; compressed ones are inflated into an arena, as many as fit; one whose CRC, place or codec is wrong is a
problem; and one whose records are doubtful is read record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c

from tidelog.pipeline.segments.batches import BatchHeaders, misplaced
from tidelog.pipeline.segments.careful import careful_rows
from tidelog.pipeline.segments.fields import RECORD_SIZE_MIN, decode, walk
from tidelog.pipeline.segments.rows import Rows
from tidelog.pipeline.segments.scan import Chunk, Problem
from tidelog.pipeline.segments.varints import PADDING, Ints
from tidelog.wire.batch import CRC_START, HEADER_SIZE, RecordBatch
from tidelog.wire.compression import Compression, decompress
from tidelog.wire.errors import ProtocolError

ROWS_MAX: Final = 32_768
INFLATED_MAX: Final = 128 << 20
_ARENA_BYTES: Final = 4 << 20
_CODEC_MAX: Final = int(max(Compression))


class _Body(NamedTuple):
    """The records of the batch `number` of a chunk: so many, from `start` to `end` of some bytes."""

    number: int
    start: int
    end: int
    records: int


class ChunkDecoder:
    """Chunks of one segment, one after the other. `problems` are those that no row tells of yet."""

    def __init__(self, rows: Rows, base_offset: int, *, rows_max: int, inflated_max: int) -> None:
        self.problems: list[Problem] = []
        self._rows = rows
        self._expected = base_offset
        self._rows_max = rows_max
        self._inflated_max = inflated_max

    def told(self) -> Iterator[Any]:
        """The problems so far as rows: they come before what follows them in the file."""
        if self.problems:
            yield self._rows.of_problems(self.problems)
            self.problems.clear()

    def chunk(self, chunk: Chunk, offsets: range | None) -> Iterator[Any]:
        headers = _headers(chunk)
        if offsets is not None:
            wanted = (headers["base_offset"] < offsets.stop) & (headers.next_offsets > offsets.start)
            chunk = _only(chunk, np.flatnonzero(wanted).tolist())
            if not chunk.starts:
                return
            headers = _headers(chunk)
        yield from _Chunk(self, chunk, headers).decoded()

    def place(self, headers: BatchHeaders, sound: Ints) -> list[int]:
        """Which of the `sound` batches cannot stand where they are."""
        bases, nexts = headers["base_offset"][sound], headers.next_offsets[sound]
        wrong, self._expected = misplaced(bases, nexts, self._expected)
        return [int(sound[number]) for number in wrong]

    @property
    def rows(self) -> Rows:
        return self._rows

    @property
    def rows_max(self) -> int:
        return self._rows_max

    @property
    def inflated_max(self) -> int:
        return self._inflated_max


def _headers(chunk: Chunk) -> BatchHeaders:
    return BatchHeaders(
        np.frombuffer(chunk.data, np.uint8), np.array(chunk.starts, np.int64), chunk.file_position
    )


def _only(chunk: Chunk, numbers: list[int]) -> Chunk:
    starts, ends = [chunk.starts[n] for n in numbers], [chunk.ends[n] for n in numbers]
    return Chunk(chunk.data, chunk.file_position, starts, ends)


class _Chunk:
    """The batches of one chunk."""

    def __init__(self, decoder: ChunkDecoder, chunk: Chunk, headers: BatchHeaders) -> None:
        self._decoder = decoder
        self._chunk = chunk
        self._headers = headers
        self._codecs = headers.codecs.tolist()
        self._counts = headers["record_count"].tolist()

    def decoded(self) -> Iterator[Any]:
        wrong = self._wrong()
        chunk = self._chunk
        numbers: Iterable[int] = range(len(chunk.starts))
        if not wrong and not any(self._codecs):
            yield from self._read(chunk.data, self._bodies(numbers))
            return
        for kind, group in groupby(numbers, lambda n: -1 if n in wrong else min(1, self._codecs[n])):
            if kind < 0:
                self._decoder.problems += [wrong[number] for number in group]
            elif kind:
                yield from self._inflated(group)
            else:
                yield from self._read(chunk.data, self._bodies(group))

    # ------------------------------------------------------------ what is wrong with batches

    def _wrong(self) -> dict[int, Problem]:
        """The batches of which nothing can be believed, by their numbers."""
        view = memoryview(self._chunk.data)
        pairs = zip(self._chunk.starts, self._chunk.ends, strict=True)
        sums = np.array([crc32c(view[start + CRC_START : end]) for start, end in pairs], np.int64)
        crc_ok = sums == self._headers["crc"]
        bases = self._headers["base_offset"]
        # Sums wrap around in numpy, which is one more way in which an end can precede its beginning.
        sound = crc_ok & (bases >= 0) & (bases < self._headers.next_offsets)
        sound &= self._headers.codecs <= _CODEC_MAX
        lost = self._decoder.place(self._headers, np.flatnonzero(sound))
        if not lost and sound.all():
            return {}
        wrong = {}
        for number in np.flatnonzero(~sound).tolist():
            if not crc_ok[number]:
                words = "the CRC of the batch does not match"
            elif self._codecs[number] > _CODEC_MAX:
                words = f"the batch is compressed with codec {self._codecs[number]}, which nobody knows"
            else:
                words = "the batch claims offsets that cannot be"
            wrong[number] = self._problem(number, words, crc_ok=bool(crc_ok[number]))
        for number in lost:
            words = "the batch cannot be at this place: its offsets do not fit those around it"
            wrong[number] = self._problem(number, words)
        return wrong

    def _problem(self, number: int, words: str, *, crc_ok: bool = True) -> Problem:
        base_offset = int(self._headers["base_offset"][number])
        return Problem(int(self._headers.positions[number]), words, base_offset, crc_ok)

    # ------------------------------------------------------------ bodies

    def _bodies(self, numbers: Iterable[int]) -> list[_Body]:
        starts, ends, counts = self._chunk.starts, self._chunk.ends, self._counts
        return [_Body(n, starts[n] + HEADER_SIZE, ends[n], counts[n]) for n in numbers]

    def _inflated(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Bodies of compressed batches, inflated into one arena until it is full."""
        view = memoryview(self._chunk.data)
        arena: list[bytes] = []
        bodies: list[_Body] = []
        size = 0
        for number in numbers:
            packed = view[self._chunk.starts[number] + HEADER_SIZE : self._chunk.ends[number]]
            try:
                body = decompress(packed, Compression(self._codecs[number]), limit=self._decoder.inflated_max)
            except ProtocolError as error:
                yield from self._read_arena(arena, bodies)
                size = 0
                self._decoder.problems.append(self._problem(number, str(error)))
                continue
            if size + len(body) > _ARENA_BYTES:
                yield from self._read_arena(arena, bodies)
                size = 0
            arena.append(body)
            bodies.append(_Body(number, size, size + len(body), self._counts[number]))
            size += len(body)
        yield from self._read_arena(arena, bodies)

    def _read_arena(self, arena: list[bytes], bodies: list[_Body]) -> Iterator[Any]:
        if bodies:
            data = b"".join([*arena, bytes(PADDING)])
            arena.clear()
            together = bodies.copy()
            bodies.clear()
            yield from self._read(data, together)

    # ------------------------------------------------------------ records

    def _read(self, data: bytes, bodies: Iterable[_Body]) -> Iterator[Any]:
        """The records of these batches, as many together as make one Arrow batch."""
        rows_max = self._decoder.rows_max
        together: list[_Body] = []
        positions: list[int] = []
        for body in bodies:
            number, start, end, count = body
            if len(positions) + count > rows_max:
                yield from self._rows_of(data, together, positions)
                together, positions = [], []
            possible = 0 <= count * RECORD_SIZE_MIN <= end - start
            if possible and count > rows_max:
                yield from self._long(data, body)
                continue
            mark = len(positions)
            if possible and walk(data, start, count, positions) == end:
                together.append(body)
                continue
            del positions[mark:]
            yield from self._rows_of(data, together, positions)
            together, positions = [], []
            yield from self._carefully(number)
        yield from self._rows_of(data, together, positions)

    def _rows_of(self, data: bytes, bodies: list[_Body], positions: list[int]) -> Iterator[Any]:
        if not positions:
            return
        counts = np.array([body.records for body in bodies], np.int64)
        batch = np.repeat(np.array([body.number for body in bodies], np.int64), counts)
        records, doubts = decode(data, positions, batch, self._headers)
        if doubts is None:
            yield from self._decoder.told()
            yield self._decoder.rows.of_records(records, self._headers)
            return
        doubtful = set(batch[doubts].tolist())
        for is_doubtful, group in groupby(bodies, lambda body: body.number in doubtful):
            if not is_doubtful:
                yield from self._read(data, group)
                continue
            for body in group:
                yield from self._carefully(body.number)

    def _long(self, data: bytes, body: _Body) -> Iterator[Any]:
        """A batch of more records than are decoded together."""
        number, at, end, count = body
        done = 0
        while done < count:
            positions: list[int] = []
            part = min(self._decoder.rows_max, count - done)
            behind = walk(data, at, part, positions)
            records = None
            if behind is not None and behind <= end and (behind == end or done + part < count):
                batch = np.full(part, number, np.int64)
                records, doubts = decode(data, positions, batch, self._headers)
                if doubts is not None:
                    records = None
            if behind is None or records is None:
                yield from self._carefully(number, skip=done)
                return
            yield from self._decoder.told()
            yield self._decoder.rows.of_records(records, self._headers)
            done += part
            at = behind

    def _carefully(self, number: int, skip: int = 0) -> Iterator[Any]:
        """A batch with something wrong inside, record by record."""
        batch = RecordBatch.parse(self._chunk.data, self._chunk.starts[number])
        position = int(self._headers.positions[number])
        rows: list[dict[str, Any]] = []
        for found in careful_rows(batch, position, inflated_max=self._decoder.inflated_max, skip=skip):
            if isinstance(found, Problem):
                yield from self._dicts(rows)
                self._decoder.problems.append(found)
                return
            rows.append(found)
            if len(rows) == self._decoder.rows_max:
                yield from self._dicts(rows)
        yield from self._dicts(rows)

    def _dicts(self, rows: list[dict[str, Any]]) -> Iterator[Any]:
        if rows:
            yield from self._decoder.told()
            yield self._decoder.rows.of_dicts(rows)
            rows.clear()
