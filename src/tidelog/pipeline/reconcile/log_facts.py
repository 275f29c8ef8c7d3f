"""What a piece of a log says of its offsets, by the headers of its batches.

A batch that holds as many records as offsets is not decoded: its header says everything. Only batches that
compaction has thinned are. Whether a transaction was aborted is known from its marker, which may be in
a later piece: what is open at the end of a piece is handed on, with the first marker of each producer.

Rules of the file: no Spark, no files. A batch whose CRC is wrong is `unreadable`, never a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from tidelog.pipeline.reconcile.bits import Gathering, OffsetSet
from tidelog.pipeline.segments.batches import BatchHeaders
from tidelog.pipeline.segments.decoding import INFLATED_MAX, ROWS_MAX, ChunkDecoder
from tidelog.pipeline.segments.rows import Rows, SegmentFile
from tidelog.pipeline.segments.scan import Chunk
from tidelog.wire.batch import CRC_START, CorruptBatch, RecordBatch
from tidelog.wire.records import read_records

Ranges = list[tuple[int, int]]

_CONTROL_TYPE: Final = Struct(">hh")
_ABORT: Final = 0
_ENDS: Final = (0, 1)
"""Control records that end a transaction: abort and commit. Others concern the brokers."""
TIME_STEP_MS: Final = 600_000
"""Times of offsets are known this exactly."""
_TIMES_MAX: Final = 1 << 14
_BATCH_OFFSETS_MAX: Final = 1 << 24
"""Of a damaged batch, no more offsets than so are believed."""


@dataclass(slots=True)
class PieceFacts:
    """`records` are those of producers, as far as the piece does not know better. `times` are offsets and the
    time of their batch, wherever `TIME_STEP_MS` changes; `reached` is the first offset at each time that was
    asked for, or later."""

    partition: int
    start: int
    end: int = 0
    records: OffsetSet = field(default_factory=OffsetSet)
    aborted: OffsetSet = field(default_factory=OffsetSet)
    markers: OffsetSet = field(default_factory=OffsetSet)
    unreadable: OffsetSet = field(default_factory=OffsetSet)
    open: dict[int, Ranges] = field(default_factory=dict)
    """Transactions without a marker so far, by producer."""
    first_markers: dict[int, bool] = field(default_factory=dict)
    """By producer: whether the first marker of the piece aborts."""
    times: list[tuple[int, int]] = field(default_factory=list)
    newest_ms: int = -1
    reached: list[int | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    first: int | None = None
    """The first offset of a batch."""


class PieceScan:
    """Takes the chunks of a piece in the order of the log."""

    def __init__(
        self, segment: SegmentFile, partition: int, offsets: range, asked_ms: Sequence[int] = ()
    ) -> None:
        self._facts = PieceFacts(partition, offsets.start, offsets.start, reached=[None] * len(asked_ms))
        self._asked_ms = asked_ms
        self._offsets = offsets
        self._segment = segment
        self._records, self._markers = Gathering(), Gathering()
        self._aborted, self._unreadable = Gathering(), Gathering()

    def chunk(self, chunk: Chunk) -> int:
        """Returns the offset behind its last batch."""
        data = np.frombuffer(chunk.data, np.uint8)
        headers = BatchHeaders(data, np.array(chunk.starts, np.int64), chunk.file_position)
        bases, nexts = headers["base_offset"], headers.next_offsets
        wanted = (bases < self._offsets.stop) & (nexts > self._offsets.start) & (nexts > bases)
        sound = wanted & _crc_ok(chunk, headers["crc"])
        for at in np.flatnonzero(wanted & ~sound).tolist():
            self._damaged(int(bases[at]), int(nexts[at]))
        plain = sound & ~headers.control
        dense = plain & (headers["record_count"] == nexts - bases)
        self._dense(bases[dense], nexts[dense])
        self._thinned(chunk, np.flatnonzero(plain & ~dense).tolist())
        self._transactions(chunk, headers, np.flatnonzero(sound & (headers.control | headers.transactional)))
        if sound.any():
            self._facts.end = max(self._facts.end, min(int(nexts[sound].max()), self._offsets.stop))
            if self._facts.first is None:
                self._facts.first = max(int(bases[sound].min()), self._offsets.start)
            self._times(bases[sound], headers["max_timestamp"][sound])
        return int(nexts[-1])

    def problem(self, words: str) -> None:
        self._facts.problems.append(words)

    def finished(self) -> PieceFacts:
        facts = self._facts
        facts.records, facts.markers = self._records.finished(), self._markers.finished()
        facts.aborted, facts.unreadable = self._aborted.finished(), self._unreadable.finished()
        return facts

    # ------------------------------------------------------------ kinds of batches

    def _clip(self, start: int, end: int) -> tuple[int, int]:
        return max(start, self._offsets.start), min(end, self._offsets.stop)

    def _dense(self, bases: Any, nexts: Any) -> None:
        """Batches that follow each other without a gap are one range."""
        if not len(bases):
            return
        cuts = np.flatnonzero(bases[1:] != nexts[:-1]) + 1
        starts = bases[np.concatenate(([0], cuts))]
        ends = nexts[np.concatenate((cuts, [len(bases)])) - 1]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            self._records.add_range(*self._clip(start, end))

    def _thinned(self, chunk: Chunk, numbers: list[int]) -> None:
        if not numbers:
            return
        starts, ends = [chunk.starts[n] for n in numbers], [chunk.ends[n] for n in numbers]
        rows = Rows(self._segment, ["offset", "problem"])
        decoder = ChunkDecoder(rows, 0, rows_max=ROWS_MAX, inflated_max=INFLATED_MAX)
        parts = [*decoder.chunk(Chunk(chunk.data, chunk.file_position, starts, ends), None), *decoder.told()]
        for part in parts:
            for words in part.column(1).drop_null().unique().to_pylist():
                self.problem(words)
            offsets = part.column(0).drop_null().to_numpy()
            self._records.add(offsets[(offsets >= self._offsets.start) & (offsets < self._offsets.stop)])

    def _damaged(self, start: int, end: int) -> None:
        self._unreadable.add_range(*self._clip(start, min(end, start + _BATCH_OFFSETS_MAX)))
        self.problem(f"offset {start}: the CRC of the batch does not match")

    # ------------------------------------------------------------ transactions

    def _transactions(self, chunk: Chunk, headers: BatchHeaders, numbers: Any) -> None:
        control, producers = headers.control, headers["producer_id"]
        bases, nexts = headers["base_offset"], headers.next_offsets
        for at in numbers.tolist():
            start, end = self._clip(int(bases[at]), int(nexts[at]))
            producer = int(producers[at])
            if not control[at]:
                _append(self._facts.open.setdefault(producer, []), start, end)
                continue
            self._markers.add_range(start, end)
            kind = _control_type(chunk, at)
            if kind in _ENDS:
                self._facts.first_markers.setdefault(producer, kind == _ABORT)
                for aborted in self._facts.open.pop(producer, []) if kind == _ABORT else ():
                    move(self._records, self._aborted, *aborted)
                self._facts.open.pop(producer, None)

    # ------------------------------------------------------------ times

    def _times(self, bases: Any, timestamps: Any) -> None:
        facts, steps = self._facts, timestamps // TIME_STEP_MS
        fresh = not facts.times or facts.times[-1][1] // TIME_STEP_MS != steps[0]
        changed = np.concatenate(([fresh], steps[1:] != steps[:-1]))
        found = zip(bases[changed].tolist(), timestamps[changed].tolist(), strict=True)
        facts.times += list(found)[: max(0, _TIMES_MAX - len(facts.times))]
        facts.newest_ms = max(facts.newest_ms, int(timestamps.max()))
        for number, asked in enumerate(self._asked_ms):
            late = timestamps >= asked
            if facts.reached[number] is None and late.any():
                facts.reached[number] = int(bases[late.argmax()])


def move(source: Gathering, target: Gathering, start: int, end: int) -> None:
    """The members of a range. What the source lacks there, compaction has taken."""
    for stretch_start, stretch_end, members in source.parts(start, end):
        target.add(np.flatnonzero(members) + stretch_start)
        source.remove_range(stretch_start, stretch_end)


def _append(ranges: Ranges, start: int, end: int) -> None:
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end)
    else:
        ranges.append((start, end))


def _crc_ok(chunk: Chunk, expected: Any) -> Any:
    view = memoryview(chunk.data)
    pairs = zip(chunk.starts, chunk.ends, strict=True)
    return np.array([crc32c(view[start + CRC_START : end]) for start, end in pairs], np.int64) == expected


def _control_type(chunk: Chunk, at: int) -> int | None:
    try:
        batch = RecordBatch.parse(bytearray(chunk.data[chunk.starts[at] : chunk.ends[at]]))
        for record in read_records(batch):
            if record.key is not None and len(record.key) >= _CONTROL_TYPE.size:
                return int(_CONTROL_TYPE.unpack_from(record.key)[1])
    except CorruptBatch:
        pass
    return None
