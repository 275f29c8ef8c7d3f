"""Reads a topic from its beginning to its end, as it is now: for checks, not for consumers."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client, ClientError, error_name
from tidelog.wire.batch import RecordBatch, split
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.primitives import Buffer
from tidelog.wire.records import read_records

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_WAIT_MS: Final = 500
_BYTES_MAX: Final = 8 * 1024 * 1024
_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


@dataclass(slots=True, frozen=True)
class ReadRecord:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    leader_epoch: int
    transaction_of: int | None = None
    """The id of its producer, if it was written in a transaction."""


@dataclass(slots=True, frozen=True)
class Marker:
    """The end of a transaction."""

    offset: int
    transaction_of: int
    aborts: bool


@dataclass(slots=True)
class TopicContents:
    """What a topic holds: its records by partition and offset, and where each partition starts and ends."""

    records: list[ReadRecord] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def read_topic(servers: str, topic: str) -> TopicContents:
    """Everything that is committed now, without what aborted and open transactions wrote. Waits for leaders
    for a while. Raises `ClientError`."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _read(servers, topic)
        except ClientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


def _read(servers: str, topic: str) -> TopicContents:
    found = TopicContents()
    with Admin(servers) as admin:
        views = admin.topics([topic])
        admin.add_offsets(views)
        leaders = {broker.node_id: (broker.host, broker.port) for broker in admin.metadata([topic]).brokers}
    for part in views[0].partitions:
        if part.start_offset is None or part.high_watermark is None or part.leader not in leaders:
            raise ClientError(f"{topic}-{part.number} has no leader that answers")
        found.starts[part.number], found.ends[part.number] = part.start_offset, part.high_watermark
        with Client(*leaders[part.leader]) as leader:
            records, markers = _read_partition(leader, topic, part.number, found)
        found.records += _committed(records, markers)
    return found


def _read_partition(
    leader: Client, topic: str, partition: int, found: TopicContents
) -> tuple[list[ReadRecord], list[Marker]]:
    records: list[ReadRecord] = []
    markers: list[Marker] = []
    offset = found.starts[partition]
    while offset < found.ends[partition]:
        part = _fetch(leader, topic, partition, offset)
        records += part.records
        markers += part.markers
        offset = part.next_offset
    return records, markers


def _committed(records: list[ReadRecord], markers: list[Marker]) -> Iterator[ReadRecord]:
    """The next marker of a producer decides about what it wrote in a transaction."""
    ends: dict[int, list[Marker]] = {}
    for marker in markers:
        ends.setdefault(marker.transaction_of, []).append(marker)
    for record in records:
        if record.transaction_of is not None:
            mine = ends.get(record.transaction_of, [])
            at = bisect_right(mine, record.offset, key=lambda marker: marker.offset)
            if at == len(mine) or mine[at].aborts:
                continue
        yield record


@dataclass(slots=True)
class Fetched:
    """The answer about one partition."""

    partition: int
    error: int
    records: list[ReadRecord]
    next_offset: int
    """The offset after the records; the one that was asked for if there are none."""
    markers: list[Marker] = field(default_factory=list)


def fetch(leader: Client, topic: str, offsets: dict[int, int], wait_ms: int) -> list[Fetched]:
    """Some records of partitions from these offsets on; none after so much time without any."""
    wanted = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_BYTES_MAX)
        for partition, offset in offsets.items()
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    answer = leader.fetch(request)
    return [
        _fetched(topic, part.partition_index, part.error_code, part.records, offsets[part.partition_index])
        for found in answer.responses
        for part in found.partitions
    ]


def _fetched(topic: str, partition: int, error: int, data: Buffer | None, offset: int) -> Fetched:
    batches = [] if error else split(bytearray(data or b""))
    records = [
        ReadRecord(
            topic,
            partition,
            record.offset,
            record.key,
            record.value,
            record.timestamp,
            batch.leader_epoch,
            batch.producer_id if batch.is_transactional else None,
        )
        for batch in batches
        if not batch.is_control
        for record in read_records(batch)
        if record.offset >= offset
    ]
    markers = [marker for batch in batches if batch.is_control for marker in _markers(batch)]
    return Fetched(partition, error, records, batches[-1].next_offset if batches else offset, markers)


def _markers(batch: RecordBatch) -> Iterator[Marker]:
    """Other control records are about brokers."""
    for record in read_records(batch):
        if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
            _, kind = _CONTROL_KEY.unpack_from(record.key)
            if kind in (_ABORT, _COMMIT):
                yield Marker(record.offset, batch.producer_id, kind == _ABORT)


def _fetch(leader: Client, topic: str, partition: int, offset: int) -> Fetched:
    """Some records from an offset on."""
    (part,) = fetch(leader, topic, {partition: offset}, _WAIT_MS)
    if part.error != ErrorCode.NONE:
        raise ClientError(f"{topic}-{partition} at {offset}: {error_name(part.error)}")
    if part.next_offset == offset:
        raise ClientError(f"{topic}-{partition} at {offset}: nothing was returned")
    return part
