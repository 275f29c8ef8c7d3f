"""The topic's side from the brokers, with tidelog's own client: unlike a consumer, it is given control
records and records of aborted transactions. Works with tidelog and with Apache Kafka.

Each partition is cut into slices of offsets, so that several workers fetch at once. Everything below the high
watermark is read, once; nothing is kept of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.errors import Refusal
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client, error_name
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place
from tidelog.pipeline.reconcile.log_facts import PieceFacts, PieceScan
from tidelog.pipeline.reconcile.topic import TopicLog, put_together
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.segments.scan import Chunk, whole_batches
from tidelog.pipeline.segments.varints import PADDING
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

_SLICE_OFFSETS: Final = 4 << 20
_FETCH_BYTES: Final = 16 << 20
_WAIT_MS: Final = 500
_EMPTY_MAX: Final = 20


@dataclass(slots=True, frozen=True)
class LivePiece:
    """A slice of a partition, `host` and `port` being those of its leader. `bytes` is a guess."""

    topic: str
    partition: int
    host: str
    port: int
    offsets: range
    bytes: int


@dataclass(slots=True, frozen=True)
class LivePartition:
    """Where its leader is, and which offsets it has, the end exclusive."""

    number: int
    host: str
    port: int
    start: int
    end: int


@dataclass(slots=True, frozen=True)
class LiveTopic:
    topic_id: str | None
    """None: its brokers have no ids (before Kafka 2.8)."""
    partitions: list[LivePartition]


def look_at(servers: str, topic: str) -> LiveTopic:
    """The topic and its partitions. Raises `PipelineError` if one cannot be read now."""
    try:
        with Admin(servers) as admin:
            views = admin.topics([topic])
            admin.add_offsets(views)
            brokers = {each.node_id: (each.host, each.port) for each in admin.metadata([topic]).brokers}
    except Refusal as error:
        raise PipelineError(str(error)) from None
    found = []
    for part in views[0].partitions:
        if part.leader not in brokers or part.start_offset is None or part.high_watermark is None:
            raise PipelineError(
                f"{topic}-{part.number} has no leader that answers: try again when it has one"
            )
        host, port = brokers[part.leader]
        found.append(LivePartition(part.number, host, port, part.start_offset, part.high_watermark))
    return LiveTopic(views[0].topic_id or None, found)


def read_topic(
    engine: Any,
    servers: str,
    topic: str,
    judged: Mapping[int, int],
    asked_ms: Sequence[int] = (),
) -> TopicLog:
    """The topic as it is now; of each partition from the offset in `judged` on. `asked_ms` are times of which
    the offsets are wanted. Raises `PipelineError`."""
    live = look_at(servers, topic)
    parts = live.partitions
    pieces = []
    for part in parts:
        first = min(max(part.start, judged.get(part.number, 0)), part.end)
        for start in range(first, part.end, _SLICE_OFFSETS):
            offsets = range(start, min(start + _SLICE_OFFSETS, part.end))
            pieces.append(LivePiece(topic, part.number, part.host, part.port, offsets, len(offsets) * 32))
    facts = engine.run(fetch_slice, tuple(asked_ms), pieces)
    logs = {}
    for part in parts:
        own = [each for piece, each in zip(pieces, facts, strict=True) if piece.partition == part.number]
        first = judged.get(part.number, 0)
        logs[part.number] = put_together(part.number, part.start, part.end, first, own)
    return TopicLog(topic, servers, logs, live.topic_id)


def fetch_slice(asked_ms: Sequence[int], piece: LivePiece) -> PieceFacts:
    """The kernel: what the leader gives of a slice."""
    nameless = SegmentFile(Place("/"), "", None, piece.topic, piece.partition)
    scanning = PieceScan(nameless, piece.partition, piece.offsets, asked_ms)
    offset, empty = piece.offsets.start, 0
    with Client(piece.host, piece.port) as leader:
        while offset < piece.offsets.stop:
            data = _fetch(leader, piece, offset)
            starts, ends = whole_batches(data)
            if not starts:
                empty += 1
                if empty > _EMPTY_MAX:
                    raise PipelineError(
                        f"{piece.topic}-{piece.partition} at {offset}: the leader gives nothing"
                    )
                continue
            empty = 0
            chunk = Chunk(data + bytes(PADDING), 0, starts, ends)
            offset = max(offset + 1, scanning.chunk(chunk))
    return scanning.finished()


def _fetch(leader: Client, piece: LivePiece, offset: int) -> bytes:
    wanted = FetchPartition(partition=piece.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[FetchTopic(topic=piece.topic, partitions=[wanted])],
    )
    answer = leader.fetch(request).responses[0].partitions[0]
    if answer.error_code != ErrorCode.NONE:
        raise PipelineError(f"{piece.topic}-{piece.partition} at {offset}: {error_name(answer.error_code)}")
    return bytes(answer.records or b"")
