"""Reads a topic from its beginning to its end, as it is now: for checks, not for consumers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client, ClientError, error_name
from tidelog.wire.api import Api
from tidelog.wire.batch import split
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.records import read_records

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class ReadRecord:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    leader_epoch: int


@dataclass(slots=True)
class TopicContents:
    """What a topic holds: its records by partition and offset, and where each partition starts and ends."""

    records: list[ReadRecord] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def read_topic(servers: str, topic: str) -> TopicContents:
    """Everything that is committed now. Raises `ClientError`, after having waited for leaders for a while."""
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
            offset = part.start_offset
            while offset < part.high_watermark:
                records, offset = _fetch(leader, topic, part.number, offset)
                found.records += records
    return found


def _fetch(leader: Client, topic: str, partition: int, offset: int) -> tuple[list[ReadRecord], int]:
    """Some records from an offset on, and the offset after them."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_BYTES_MAX)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    part = leader.ask(Api.FETCH, request).responses[0].partitions[0]
    if part.error_code != ErrorCode.NONE:
        raise ClientError(f"{topic}-{partition} at {offset}: {error_name(part.error_code)}")
    batches = split(bytearray(part.records or b""))
    if not batches:
        raise ClientError(f"{topic}-{partition} at {offset}: nothing was returned")
    records = [
        ReadRecord(
            topic, partition, record.offset, record.key, record.value, record.timestamp, batch.leader_epoch
        )
        for batch in batches
        if not batch.is_control
        for record in read_records(batch)
        if record.offset >= offset
    ]
    return records, batches[-1].next_offset
