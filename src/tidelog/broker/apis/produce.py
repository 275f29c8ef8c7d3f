"""Produce (0).

Behaviour: a batch is checked (size, CRC, counts), stamped and stored as it is. Its records are read only if
the topic is compacted, because there each must have a key; records without a key are listed in the answer,
and their batch is not stored. A batch that is too large to read (``storage/log/keyed_records.py``) gets
MESSAGE_TOO_LARGE. acks=0 gets no answer, acks=1 when the leader has stored it, acks=all when every in-sync
replica has it. A request for several partitions is answered when all are done. Only group coordinators may
write to ``__consumer_offsets``.
Not done: transactions, message formats before 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import ClientConnection, Request
from tidelog.broker.topic_settings import ANY_DIFFERENCE
from tidelog.core import messages as core
from tidelog.core.types import TopicPartition
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.settings.topic import LogConfig
from tidelog.storage.background import Steps, StepsAndJobs
from tidelog.storage.log.keyed_records import BatchTooLarge, keyless_records
from tidelog.wire.api import Api, RequestHeader
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.one_partition import read_produce, write_produced
from tidelog.wire.schema import Records

if TYPE_CHECKING:
    from tidelog.broker.node import Node

VALID_ACKS = (-1, 0, 1)
_ANSWERED_ACKS = (-1, 1)
KEYS_NEEDED = "Every record of a compacted topic must have a key."
COORDINATORS_ONLY = "Only group coordinators write to this topic."
_AT_ONCE = 100
"""Partitions that are read from the request, or answered, between two yields."""


def handle_one(node: Node, connection: ClientConnection, frame: bytearray, received_at: float) -> bool:
    """One batch that is valid and stored as it was sent, and that is answered."""
    read = read_produce(frame)
    if read is None:
        return False
    version, correlation_id, client_id, acks, timeout, topic, number, records = read
    bytes_max = node.topics.bytes_as_sent(topic)
    if not bytes_max or topic == OFFSETS_TOPIC or acks not in _ANSWERED_ACKS:
        return False
    error, batch = _checked(records, bytes_max)
    if batch is None or error is not ErrorCode.NONE:
        return False
    header = RequestHeader(Api.PRODUCE, version, correlation_id, client_id)
    request = OneProduce(node, connection, header, received_at)
    connection.enqueue(request)
    node.ask(request, core.ProduceRequest(TopicPartition(topic, number), acks, batch, timeout))
    return True


class OneProduce(Request):
    """A request in progress, for one partition."""

    __slots__ = ("_node",)

    def __init__(
        self, node: Node, connection: ClientConnection, header: RequestHeader, received_at: float
    ) -> None:
        super().__init__(connection, header, None, received_at)
        self._node = node

    def deliver(self, response: core.ProduceResponse) -> None:
        error, tp, log_start, node, header = response.error, response.tp, -1, self._node, self.header
        failed = error is not ErrorCode.NONE
        if failed:
            node.metrics.error_answered(Api.PRODUCE, error)
        elif tp in node.core.replicas:
            log_start = node.core.replicas[tp].log.start_offset
        number = header.correlation_id
        answer = write_produced(header.api_version, number, *tp, error, response.base_offset, log_start)
        self.respond_encoded([answer], failed=failed)


@serves(
    Api.PRODUCE, listed_since=0, shortcut=handle_one
)  # older librdkafka compresses only then (KAFKA-18659)
def handle(node: Node, request: Request) -> StepsAndJobs[None]:
    body: ProduceRequest = request.body
    acks, timeout = body.acks, body.timeout_ms
    pending = PendingProduce(request, acks, node)
    yield from pending.name(body)
    for topic in body.topic_data:
        name = topic.name
        config = node.topics.of(name)
        yield None
        for data in topic.partition_data:
            yield None
            tp = TopicPartition(name, data.index)
            error, batch = _checked(data.records, config.max_message_bytes)
            if acks not in VALID_ACKS:
                error = ErrorCode.INVALID_REQUIRED_ACKS
            if batch is None or error is not ErrorCode.NONE:
                pending.deliver(core.ProduceResponse(tp, error))
                continue
            if name == OFFSETS_TOPIC:
                pending.refuse(tp, ErrorCode.INVALID_TOPIC_EXCEPTION, COORDINATORS_ONLY)
                continue
            if config.compacts and (yield from _refused_by_compaction(pending, tp, batch)):
                continue
            if config.append_time:
                batch.stamp_append_time(pending.stamp())
            elif config.message_timestamp_difference_max_ms != ANY_DIFFERENCE and _is_off(
                batch, node, config
            ):
                pending.deliver(core.ProduceResponse(tp, ErrorCode.INVALID_TIMESTAMP))
                continue
            pending.ask(core.ProduceRequest(tp, acks, batch, timeout))
    pending.asked_all()


def _checked(records: Records | None, bytes_max: int) -> tuple[ErrorCode, RecordBatch | None]:
    if not records:
        return ErrorCode.INVALID_RECORD, None
    try:
        batch = RecordBatch.parse(records)
    except CorruptBatch:
        return ErrorCode.CORRUPT_MESSAGE, None
    if batch.size != len(records):
        return ErrorCode.INVALID_RECORD, None  # a producer sends one batch per partition
    return batch.validation_error(bytes_max), batch


def _refused_by_compaction(
    pending: PendingProduce, tp: TopicPartition, batch: RecordBatch
) -> StepsAndJobs[bool]:
    try:
        keyless = yield from keyless_records(batch)
    except BatchTooLarge as error:
        # Kafka's producer then splits the batch and sends the parts.
        pending.refuse(tp, ErrorCode.MESSAGE_TOO_LARGE, str(error))
        return True
    except CorruptBatch:
        pending.deliver(core.ProduceResponse(tp, ErrorCode.CORRUPT_MESSAGE))
        return True
    if keyless:
        pending.refuse(tp, ErrorCode.INVALID_RECORD, KEYS_NEEDED, keyless)
    return bool(keyless)


def _is_off(batch: RecordBatch, node: Node, config: LogConfig) -> bool:
    """Whether the batch's timestamps differ too much from the broker's clock, according to its header."""
    now, allowed = node.time_ms(), config.message_timestamp_difference_max_ms
    return max(abs(batch.base_timestamp - now), abs(batch.max_timestamp - now)) > allowed


class PendingProduce:
    """A request in progress, with one part per partition."""

    __slots__ = (
        "_acks",
        "_append_time",
        "_failed",
        "_node",
        "_parts",
        "_request",
        "_topics",
        "_waiting",
    )

    def __init__(self, request: Request, acks: int, node: Node) -> None:
        self._request = request
        self._acks = acks
        self._node = node
        self._append_time = -1
        self._topics: list[TopicProduceResponse] = []
        self._parts: dict[TopicPartition, PartitionProduceResponse] = {}
        self._failed = False
        self._waiting = 1  # counts the asking itself, so that nothing completes before all parts are asked

    @property
    def sender(self) -> str:
        return self._request.sender

    def name(self, body: ProduceRequest) -> Steps[None]:
        """Register the partitions of the answer. A request that names one twice is malformed and does
        nothing."""
        for topic in body.topic_data:
            parts: list[PartitionProduceResponse] = []
            self._topics.append(TopicProduceResponse(name=topic.name, partition_responses=parts))
            for data in topic.partition_data:
                part = PartitionProduceResponse(index=data.index, base_offset=-1)
                parts.append(part)
                self._parts[TopicPartition(topic.name, data.index)] = part
                self._waiting += 1
                if not self._waiting % _AT_ONCE:
                    yield
            if not len(self._topics) % _AT_ONCE:
                yield
        if self._waiting != len(self._parts) + 1:
            raise ProtocolError("a produce request that names a partition twice")

    def ask(self, question: core.ProduceRequest) -> None:
        self._node.ask(self, question)
        # The core does not answer acks=0, so check for its error here.
        if self._acks == 0 and not self._node.leads(question.tp):
            self._failed = True

    def stamp(self) -> int:
        """The append time of this request's batches, one for all of them."""
        if self._append_time < 0:
            self._append_time = self._node.time_ms()
        return self._append_time

    def refuse(self, tp: TopicPartition, error: ErrorCode, reason: str, records: Sequence[int] = ()) -> None:
        """With `records`, only those are wrong: clients may send the others again without them."""
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
            self._failed = True
            self._node.metrics.error_answered(Api.PRODUCE, response.error)
        else:
            part.log_append_time_ms = self._append_time
            replica = self._node.core.replicas.get(response.tp)
            part.log_start_offset = replica.log.start_offset if replica is not None else -1
        self._arrived()

    def asked_all(self) -> None:
        if self._acks != 0:
            self._arrived()
            return
        # acks=0 has no answer. Kafka closes the connection on an error, so that the producer refreshes its
        # metadata.
        self._request.respond_nothing()
        if self._failed:
            self._request.connection.close()

    def _arrived(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            few = len(self._parts) <= _AT_ONCE and not self._failed
            respond = self._request.respond_at_once if few else self._request.respond
            respond(ProduceResponse(responses=self._topics), failed=self._failed)
