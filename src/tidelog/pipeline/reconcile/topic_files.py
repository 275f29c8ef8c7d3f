"""The topic's side from log folders, of Apache Kafka or of tidelog.

Where several folders hold a partition, the log whose last batch has the newest leader epoch counts, and among
those the longest: it is what an election would have chosen. A copy of an older epoch that is longer shows
what was truncated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place
from tidelog.pipeline.reconcile.log_facts import PieceFacts, PieceScan
from tidelog.pipeline.reconcile.topic import PartitionLog, TopicLog, put_together
from tidelog.pipeline.segments.batches import BatchHeaders
from tidelog.pipeline.segments.index import narrowed
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.segments.scan import Problem, scan
from tidelog.pipeline.sources.finding import find_segments
from tidelog.pipeline.sources.planning import OFFSET_END, ReadPlan, plan

_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
_TOPIC_ID: Final = re.compile(r"^topic_id:\s*(?P<id>\S+)\s*$", re.MULTILINE)


@dataclass(slots=True, frozen=True)
class FilePiece:
    """Parts of segments of one partition, in order."""

    partition: int
    segments: tuple[SegmentFile, ...]
    offsets: range
    bytes: int


@dataclass(slots=True, frozen=True)
class _Copy:
    """One replica of a partition: the epoch of its last batch, and where it ends."""

    folder: Place
    segments: tuple[SegmentFile, ...]
    epoch: int
    end: int


def read_logs(
    engine: Any,
    paths: Sequence[str],
    topic: str,
    judged: Mapping[int, int],
    asked_ms: Sequence[int] = (),
) -> TopicLog:
    """The topic in these folders; each partition from the offset in `judged` on. `asked_ms` are times of
    which the offsets are wanted. Raises `PipelineError`."""
    found = [segment for path in paths for segment in find_segments(path) if segment.topic == topic]
    if not found:
        raise PipelineError(f"{', '.join(paths)} holds no partition of the topic {topic}")
    copies: dict[int, list[_Copy]] = {}
    for folder in sorted({segment.place for segment in found}, key=str):
        own = sorted((s for s in found if s.place == folder), key=lambda segment: segment.base_offset)
        copies.setdefault(own[0].partition or 0, []).append(_copy(folder, own))
    chosen = {number: max(each, key=lambda c: (c.epoch, c.end)) for number, each in sorted(copies.items())}
    starts = {number: _log_start(copy, topic, number) for number, copy in chosen.items()}
    pieces = []
    for number, copy in chosen.items():
        offsets = range(max(starts[number], judged.get(number, 0)), OFFSET_END)
        for parts in plan(copy.segments, ReadPlan(offsets=offsets)):
            pieces.append(FilePiece(number, tuple(parts), offsets, _bytes(parts)))
    facts = engine.run(scan_files, tuple(asked_ms), pieces)
    logs = {}
    for number, copy in chosen.items():
        own_facts = [each for piece, each in zip(pieces, facts, strict=True) if piece.partition == number]
        logs[number] = _joined(number, copy, starts[number], judged.get(number, 0), own_facts)
        logs[number].segments = copy.segments
        older = [c.end for c in copies[number] if c.epoch < copy.epoch and c.end > copy.end]
        logs[number].truncated_end = max(older, default=None)
    return TopicLog(topic, ", ".join(paths), logs, _topic_id(chosen))


def _joined(
    number: int, copy: _Copy, log_start: int, judged: int, facts: Sequence[PieceFacts]
) -> PartitionLog:
    end = max((each.end for each in facts), default=max(copy.end, log_start))
    if judged >= copy.end:  # nothing new, or less than there was
        end = max(copy.end, log_start)
    first_batches = [each.first for each in facts if each.first is not None]
    if judged <= log_start and first_batches and copy.segments[0].base_offset >= log_start:
        log_start = max(log_start, min(copy.segments[0].base_offset, *first_batches))
    return put_together(number, log_start, end, judged, facts)


def scan_files(asked_ms: Sequence[int], piece: FilePiece) -> PieceFacts:
    """The kernel: what the segments of a piece say."""
    scanning = PieceScan(piece.segments[0], piece.partition, piece.offsets, asked_ms)
    for part in piece.segments:
        try:
            with part.place.open(part.name) as source:
                segment = narrowed(part, source, piece.offsets)
                end = source.size() if segment.end is None else min(segment.end, source.size())
                for found in scan(source, segment.start, end):
                    if isinstance(found, Problem):
                        scanning.problem(f"{part.path}: position {found.position}: {found.words}")
                    else:
                        scanning.chunk(found)
        except OSError as error:
            raise PipelineError(f"{part.path} cannot be read: {reason(error)}") from None
    return scanning.finished()


def _bytes(parts: Sequence[SegmentFile]) -> int:
    return sum(
        ((part.place.size(part.name) or 0) if part.end is None else part.end) - part.start for part in parts
    )


def _copy(folder: Place, segments: Sequence[SegmentFile]) -> _Copy:
    """Only the last segment that holds a batch is looked at."""
    for segment in reversed(segments):
        epoch, end = -1, segment.base_offset
        try:
            with segment.place.open(segment.name) as source:
                for found in scan(source, 0, source.size()):
                    if not isinstance(found, Problem):
                        headers = BatchHeaders(
                            np.frombuffer(found.data, np.uint8),
                            np.array(found.starts[-1:]),
                            found.file_position,
                        )
                        epoch, end = int(headers["leader_epoch"][0]), int(headers.next_offsets[0])
        except OSError as error:
            raise PipelineError(f"{segment.path} cannot be read: {reason(error)}") from None
        if end > segment.base_offset:
            return _Copy(folder, tuple(segments), epoch, end)
    return _Copy(folder, tuple(segments), -1, segments[0].base_offset)


def _log_start(copy: _Copy, topic: str, number: int) -> int:
    """By the checkpoint of the broker, or the name of the first segment."""
    base = copy.segments[0].base_offset
    with suppress(OSError, UnicodeDecodeError, ValueError):
        lines = copy.folder.parted()[0].read(_START_CHECKPOINT).decode().splitlines()[2:]
        for line in lines:
            name, partition, offset = line.rsplit(" ", 2)
            if (name, int(partition)) == (topic, number):
                return max(base, int(offset))
    return base


def _topic_id(chosen: Mapping[int, _Copy]) -> str | None:
    """Kafka writes it into `partition.metadata` since 2.8."""
    for copy in chosen.values():
        with suppress(OSError, UnicodeDecodeError):
            if found := _TOPIC_ID.search(copy.folder.read("partition.metadata").decode()):
                return found["id"]
    return None
