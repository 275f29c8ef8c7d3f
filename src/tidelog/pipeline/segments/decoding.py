"""From chunks of batches to rows: which batches can be read together, and what becomes of the others.

Batches are taken in the order of the file. Those that are whole and not compressed are decoded where they
are; compressed ones are inflated into an arena, as many as fit; one whose CRC, place or codec is wrong is a
problem; and one whose records are doubtful is read record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from tidelog.pipeline.segments.batches import BatchHeaders, misplaced
from tidelog.pipeline.segments.careful import careful_rows
from tidelog.pipeline.segments.fields import RECORD_SIZE_MIN, decode
from tidelog.pipeline.segments.rows import Rows
from tidelog.pipeline.segments.scan import Chunk, Problem
from tidelog.pipeline.segments.varints import PADDING, Flags, Ints
from tidelog.pipeline.segments.walking import Bodies, record_positions, walk
from tidelog.wire.batch import CRC_START, HEADER_SIZE, RecordBatch
from tidelog.wire.compression import Compression, decompress
from tidelog.wire.errors import ProtocolError

ROWS_MAX: Final = 32_768
INFLATED_MAX: Final = 128 << 20
_ARENA_BYTES: Final = 4 << 20
_CODEC_MAX: Final = int(max(Compression))


class ChunkDecoder:
    """Chunks of one segment, one after the other. `problems` are those that no row names yet."""

    def __init__(self, rows: Rows, base_offset: int, *, rows_max: int, inflated_max: int) -> None:
        self.problems: list[Problem] = []
        self.rows, self.rows_max, self.inflated_max = rows, rows_max, inflated_max
        self._expected = base_offset

    def told(self) -> Iterator[Any]:
        """The problems so far as rows: they come before what follows them in the file."""
        if self.problems:
            yield self.rows.of_problems(self.problems)
            self.problems.clear()

    def chunk(self, chunk: Chunk, offsets: range | None) -> Iterator[Any]:
        headers = headers_of(chunk)
        if offsets is not None:
            wanted = (headers["base_offset"] < offsets.stop) & (headers.next_offsets > offsets.start)
            chunk = _only(chunk, np.flatnonzero(wanted).tolist())
            if not chunk.starts:
                return
            headers = headers_of(chunk)
        yield from _Chunk(self, chunk, headers).decoded()

    def place(self, headers: BatchHeaders, sound: Ints) -> list[int]:
        """Which of the `sound` batches cannot stand where they are."""
        bases, nexts = headers["base_offset"][sound], headers.next_offsets[sound]
        wrong, self._expected = misplaced(bases, nexts, self._expected)
        return [int(sound[number]) for number in wrong]


def headers_of(chunk: Chunk) -> BatchHeaders:
    return BatchHeaders(
        np.frombuffer(chunk.data, np.uint8), np.array(chunk.starts, np.int64), chunk.file_position
    )


def crcs_of(chunk: Chunk) -> Ints:
    """What the CRC of each batch should be, by its bytes."""
    view, pairs = memoryview(chunk.data), zip(chunk.starts, chunk.ends, strict=True)
    return np.array([crc32c(view[start + CRC_START : end]) for start, end in pairs], np.int64)


def _only(chunk: Chunk, numbers: list[int]) -> Chunk:
    starts, ends = [chunk.starts[n] for n in numbers], [chunk.ends[n] for n in numbers]
    return Chunk(chunk.data, chunk.file_position, starts, ends)


def _possible(bodies: Bodies) -> Flags:
    """Whether that many records fit into that many bytes."""
    return (bodies.count >= 0) & (bodies.count * RECORD_SIZE_MIN <= bodies.end - bodies.start)


class _Chunk:
    """The batches of one chunk."""

    def __init__(self, decoder: ChunkDecoder, chunk: Chunk, headers: BatchHeaders) -> None:
        self._decoder = decoder
        self._chunk = chunk
        self._headers = headers
        self._codecs = headers.codecs.tolist()
        self._counts = headers["record_count"]

    def decoded(self) -> Iterator[Any]:
        wrong = self._wrong()
        numbers = np.arange(len(self._chunk.starts))
        if not wrong and not any(self._codecs):
            yield from self._read(self._chunk.data, self._bodies(numbers))
            return
        for kind, group in groupby(numbers.tolist(), lambda n: -1 if n in wrong else min(1, self._codecs[n])):
            if kind < 0:
                self._decoder.problems += [wrong[number] for number in group]
            elif kind:
                yield from self._inflated(group)
            else:
                yield from self._read(self._chunk.data, self._bodies(np.array(list(group))))

    # ------------------------------------------------------------ what is wrong with batches

    def _wrong(self) -> dict[int, Problem]:
        """The batches of which nothing can be believed, by their numbers."""
        crc_ok = crcs_of(self._chunk) == self._headers["crc"]
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
                words = f"the batch is compressed with codec {self._codecs[number]}, which is unknown"
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

    def _bodies(self, numbers: Ints) -> Bodies:
        starts, ends = np.array(self._chunk.starts, np.int64), np.array(self._chunk.ends, np.int64)
        return Bodies(numbers, starts[numbers] + HEADER_SIZE, ends[numbers], self._counts[numbers])

    def _inflated(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Bodies of compressed batches, inflated into one arena until it is full."""
        view = memoryview(self._chunk.data)
        arena: dict[int, bytes] = {}
        size = 0
        for number in numbers:
            packed = view[self._chunk.starts[number] + HEADER_SIZE : self._chunk.ends[number]]
            codec = Compression(self._codecs[number])
            try:
                body = decompress(packed, codec, limit=self._decoder.inflated_max)
            except ProtocolError as error:
                yield from self._read_arena(arena)
                size = 0
                self._decoder.problems.append(self._problem(number, str(error)))
                continue
            if size + len(body) > _ARENA_BYTES:
                yield from self._read_arena(arena)
                size = 0
            arena[number] = body
            size += len(body)
        yield from self._read_arena(arena)

    def _read_arena(self, arena: dict[int, bytes]) -> Iterator[Any]:
        """What the bodies in it, by the numbers of their batches, hold; it is empty then."""
        numbers = np.array(list(arena), np.int64)
        ends = np.cumsum(np.array([len(body) for body in arena.values()], np.int64))
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        data = b"".join([*arena.values(), bytes(PADDING)])
        arena.clear()
        yield from self._read(data, Bodies(numbers, starts, ends, self._counts[numbers]))

    # ------------------------------------------------------------ records

    def _read(self, data: bytes, bodies: Bodies) -> Iterator[Any]:
        """The records of these batches, as many together as make one Arrow batch."""
        rows_max = self._decoder.rows_max
        # One that claims more records than its bytes can hold is not even counted.
        counts = np.where(_possible(bodies), bodies.count, 0)
        totals = np.cumsum(counts)
        begin = 0
        while begin < len(bodies):
            if counts[begin] > rows_max:
                yield from self._long(data, bodies, begin)
                begin += 1
                continue
            before = int(totals[begin - 1]) if begin else 0
            end = int(np.searchsorted(totals, before + rows_max, side="right"))
            yield from self._read_together(data, bodies.only(slice(begin, end)))
            begin = end

    def _read_together(self, data: bytes, bodies: Bodies) -> Iterator[Any]:
        possible = _possible(bodies)
        doubtful = set(bodies.number[~possible].tolist())
        if doubtful:
            bodies, everything = bodies.only(possible), bodies
        else:
            everything = bodies
        positions, sound = record_positions(data, bodies)
        if not sound.all():
            doubtful |= set(bodies.number[~sound].tolist())
            bodies = bodies.only(sound)
        batch = np.repeat(bodies.number, bodies.count)
        records, doubts = decode(data, positions, batch, self._headers)
        if doubts is not None:
            doubtful |= set(batch[doubts].tolist())
        if not doubtful:
            if len(batch):
                yield from self._decoder.told()
                yield self._decoder.rows.of_records(records, self._headers)
            return
        yield from self._sorted_out(data, everything, doubtful)

    def _sorted_out(self, data: bytes, bodies: Bodies, doubtful: set[int]) -> Iterator[Any]:
        """Those that are doubtful one by one, those between them together."""
        flags = np.array([number in doubtful for number in bodies.number.tolist()], np.bool_)
        changes = np.flatnonzero(np.diff(flags)) + 1
        for begin, end in pairwise([0, *changes.tolist(), len(flags)]):
            if flags[begin]:
                for number in bodies.number[begin:end].tolist():
                    yield from self._carefully(number)
            else:
                yield from self._read_together(data, bodies.only(slice(begin, end)))

    def _long(self, data: bytes, bodies: Bodies, index: int) -> Iterator[Any]:
        """A batch of more records than are decoded together."""
        number, at, end, count = (
            int(column[index]) for column in (bodies.number, bodies.start, bodies.end, bodies.count)
        )
        done = 0
        while done < count:
            found: list[int] = []
            part = min(self._decoder.rows_max, count - done)
            behind = walk(data, at, part, found)
            records = None
            if behind is not None and behind <= end and (behind == end or done + part < count):
                batch = np.full(part, number, np.int64)
                records, doubts = decode(data, np.array(found, np.int64), batch, self._headers)
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
