"""Requests of the scenarios' clients as Kafka's messages, and Kafka's responses as these clients read them.

The clients of scenarios use the core's messages, one record per batch. On the wire each is a request of a
fixed version that every broker since 2.7 serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.core import messages as core
from tidelog.core.types import NO_CONTROLLER_EPOCH, BrokerId, LeaderEpoch, PartitionState, TopicPartition
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.api import Api
from tidelog.wire.batch import RecordBatch, split
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch, metadata, produce
from tidelog.wire.records import Record, build_batch, read_records

_FETCH_BYTES = 50 * 1024 * 1024

Scale = Callable[[int], int]
"""From a duration of the scenario to real time, in ms."""


def to_wire(message: core.Message, scaled: Scale) -> tuple[Api, int, Any]:
    """(API, version, body) of a client's request."""
    if isinstance(message, core.ProduceRequest):
        return Api.PRODUCE, 8, _produce(message, scaled)
    if isinstance(message, core.FetchRequest):
        return Api.FETCH, 11, _fetch(message)
    if isinstance(message, core.MetadataRequest):
        return Api.METADATA, 9, metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    raise TypeError(f"clients do not send {type(message).__name__}")


def from_wire(asked: core.Message, body: Any) -> core.Message:
    if isinstance(asked, core.ProduceRequest):
        part = body.responses[0].partition_responses[0]
        return core.ProduceResponse(asked.tp, ErrorCode(part.error_code), part.base_offset)
    if isinstance(asked, core.FetchRequest):
        return _fetched(asked, body)
    return _metadata(body)


def gets_an_answer(message: core.Message) -> bool:
    return not (isinstance(message, core.ProduceRequest) and message.acks == 0)


# ---------------------------------------------------------------- Produce


def _produce(message: core.ProduceRequest, scaled: Scale) -> produce.ProduceRequest:
    batch = message.batch
    assert isinstance(batch, MemoryBatch)
    assert batch.value is not None
    now_ms = time.time_ns() // 1_000_000
    records = build_batch(
        [Record(timestamp=now_ms, value=value.encode()) for value in (batch.value, *batch.rest)],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    part = produce.PartitionProduceData(index=message.tp.partition, records=records)
    return produce.ProduceRequest(
        acks=message.acks,
        timeout_ms=scaled(message.timeout_ms),
        topic_data=[produce.TopicProduceData(name=message.tp.topic, partition_data=[part])],
    )


# ---------------------------------------------------------------- Fetch


def _fetch(message: core.FetchRequest) -> fetch.FetchRequest:
    part = fetch.FetchPartition(
        partition=message.tp.partition,
        current_leader_epoch=message.current_leader_epoch,
        fetch_offset=message.offset,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    return fetch.FetchRequest(
        replica_id=message.replica,
        max_wait_ms=message.max_wait_ms,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        topics=[fetch.FetchTopic(topic=message.tp.topic, partitions=[part])],
    )


def _fetched(asked: core.FetchRequest, body: fetch.FetchResponse) -> core.FetchResponse:
    data = body.responses[0].partitions[0]
    batches = split(data.records) if data.records else ()
    return core.FetchResponse(
        asked.tp,
        ErrorCode(data.error_code),
        asked.offset,
        asked.current_leader_epoch,
        data.high_watermark,
        [read for batch in batches for read in as_memory(batch) if read.base_offset >= asked.offset],
        data.log_start_offset,
    )


def as_memory(batch: RecordBatch) -> Iterator[MemoryBatch]:
    """The records of a batch, one by one, as the lab holds them."""
    for record in read_records(batch):
        value = None if batch.is_control or record.value is None else record.value.decode("utf-8", "replace")
        yield MemoryBatch(
            value,
            record.offset,
            LeaderEpoch(batch.leader_epoch),
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )


# ---------------------------------------------------------------- Metadata


def _metadata(body: metadata.MetadataResponse) -> core.MetadataResponse:
    return core.MetadataResponse(
        live_brokers=tuple(BrokerId(broker.node_id) for broker in body.brokers),
        controller=BrokerId(body.controller_id),
        partitions={
            TopicPartition(topic.name or "", part.partition_index): state_of(part)
            for topic in body.topics
            for part in topic.partitions
        },
    )


def state_of(part: metadata.MetadataResponsePartition) -> PartitionState:
    isr = tuple(map(BrokerId, part.isr_nodes))
    return PartitionState(BrokerId(part.leader_id), LeaderEpoch(part.leader_epoch), isr, NO_CONTROLLER_EPOCH)
