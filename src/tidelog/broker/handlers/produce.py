"""Produce (0).

Behaviour: a batch is checked (size, CRC, counts), stamped and stored as it is. Its records are looked at only
if the topic is compacted, because there each must have a key; those without are named in the answer, and
their batch is not stored. acks=0 gets no answer, acks=1 one when the
leader has it, acks=all one when every in-sync replica has it. A request for several partitions is answered
when the last of them is.
Versions: 3 to 9 (0 to 2 are listed, because older clients compress only where they see them; KAFKA-18659).
Not done: transactions, message formats before 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.types import TopicPartition
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.storage.keyed_records import keyless_records
from tidelog.storage.log_config import LogConfig
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records import CorruptBatch, RecordBatch

if TYPE_CHECKING:
    from tidelog.broker.node import Node

VALID_ACKS = (-1, 0, 1)
KEYS_NEEDED = "Every record of a compacted topic must have a key."
COORDINATORS_ONLY = "Only the coordinators of groups write to this topic."
ANY_DIFFERENCE = LogConfig().message_timestamp_difference_max_ms


def handle(node: Node, request: Request) -> None:
    body: ProduceRequest = request.body
    pending = PendingProduce(request, body, node)
    acks, timeout = body.acks, body.timeout_ms
    for topic in body.topic_data:
        name = topic.name
        config = node.topics.of(name)
        for data in topic.partition_data:
            tp = TopicPartition(name, data.index)
            error, batch = _checked(data, config.max_message_bytes)
            if acks not in VALID_ACKS:
                error = ErrorCode.INVALID_REQUIRED_ACKS
            if batch is None or error is not ErrorCode.NONE:
                pending.deliver(core.ProduceResponse(tp, error))
                continue
            if config.compacts and _refused_by_compaction(pending, tp, batch):
                continue
            if config.append_time:
                batch.stamp_append_time(pending.stamp())
            elif config.message_timestamp_difference_max_ms != ANY_DIFFERENCE and _is_off(
                batch, node, config
            ):
                pending.deliver(core.ProduceResponse(tp, ErrorCode.INVALID_TIMESTAMP))
                continue
            node.ask(pending, core.ProduceRequest(tp, acks, batch, timeout))
    pending.complete_if_unanswerable(acks)


def _checked(data: PartitionProduceData, bytes_max: int) -> tuple[ErrorCode, RecordBatch | None]:
    records = data.records
    if not records:
        return ErrorCode.INVALID_RECORD, None
    try:
        batch = RecordBatch.parse(records)
    except CorruptBatch:
        return ErrorCode.CORRUPT_MESSAGE, None
    if batch.size != len(records):
        return ErrorCode.INVALID_RECORD, None  # a producer sends one batch a partition
    return batch.validation_error(bytes_max), batch


def _refused_by_compaction(pending: PendingProduce, tp: TopicPartition, batch: RecordBatch) -> bool:
    if tp.topic == OFFSETS_TOPIC:
        pending.refuse(tp, ErrorCode.INVALID_TOPIC_EXCEPTION, COORDINATORS_ONLY)
        return True
    try:
        keyless = keyless_records(batch)
    except CorruptBatch:
        pending.deliver(core.ProduceResponse(tp, ErrorCode.CORRUPT_MESSAGE))
        return True
    if keyless:
        pending.refuse(tp, ErrorCode.INVALID_RECORD, KEYS_NEEDED, keyless)
    return bool(keyless)


def _is_off(batch: RecordBatch, node: Node, config: LogConfig) -> bool:
    """Whether the producer's clock is too far from ours, as far as the header of the batch tells."""
    now, allowed = node.time_ms(), config.message_timestamp_difference_max_ms
    return max(abs(batch.base_timestamp - now), abs(batch.max_timestamp - now)) > allowed


class PendingProduce:
    """A request on its way through the core, one part a partition."""

    __slots__ = ("_append_time", "_node", "_parts", "_request", "_topics", "_waiting")

    def __init__(self, request: Request, body: ProduceRequest, node: Node) -> None:
        self._request = request
        self._node = node
        self._append_time = -1
        self._topics: list[TopicProduceResponse] = []
        self._parts: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in body.topic_data:
            parts = []
            for data in topic.partition_data:
                part = PartitionProduceResponse(index=data.index, base_offset=-1)
                self._parts[TopicPartition(topic.name, data.index)] = part
                parts.append(part)
            self._topics.append(TopicProduceResponse(name=topic.name, partition_responses=parts))
        if sum(len(topic.partition_data) for topic in body.topic_data) != len(self._parts):
            raise ProtocolError("a produce request that names a partition twice")
        # With acks=0 one part more than there are, so that nothing ever completes: nobody waits for that.
        self._waiting = len(self._parts) + (body.acks == 0)

    def stamp(self) -> int:
        """The append time of this request's batches, one for all of them."""
        if self._append_time < 0:
            self._append_time = self._node.time_ms()
        return self._append_time

    def refuse(self, tp: TopicPartition, error: ErrorCode, reason: str, records: Sequence[int] = ()) -> None:
        """With `records`, only those are at fault: clients may send the others again without them."""
        self._parts[tp].error_message = reason
        self._parts[tp].record_errors = [
            BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=reason)
            for place in records
        ]
        self.deliver(core.ProduceResponse(tp, error))

    def deliver(self, response: core.ProduceResponse) -> None:
        part = self._parts[response.tp]
        part.error_code = response.error
        part.base_offset = response.base_offset
        if response.error is not ErrorCode.NONE:
            self._node.metrics.error_answered(Api.PRODUCE, response.error)
        else:
            part.log_append_time_ms = self._append_time
            replica = self._node.core.replicas.get(response.tp)
            part.log_start_offset = replica.log.start_offset if replica is not None else -1
        self._waiting -= 1
        if not self._waiting:
            failed = any(part.error_code for part in self._parts.values())
            self._request.respond(ProduceResponse(responses=self._topics), failed=failed)

    def complete_if_unanswerable(self, acks: int) -> None:
        if acks == 0:
            # Nobody waits for an answer. Kafka closes the connection on an error, so that the producer at
            # least refreshes its metadata; the core says nothing to acks=0, so ask what it would have said.
            self._request.respond_nothing()
            if any(part.error_code or not self._node.leads(tp) for tp, part in self._parts.items()):
                self._request.connection.close()
        elif not self._parts:
            self._request.respond(ProduceResponse(responses=[]))
