"""An idempotent producer for the command line: one batch in flight, repeated until it is acknowledged.

With acks=all every batch has a producer id and a sequence number, so a batch that is sent twice is stored
once. A record with a key goes to the partition that Kafka's Java client would choose; others take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Final, Self

from tidelog.kafka_client.admin import Refused
from tidelog.kafka_client.blocking import ClientError, error_name
from tidelog.kafka_client.leaders import Leaders, OnWait
from tidelog.kafka_client.partitioner import partition_of
from tidelog.wire.api import Api
from tidelog.wire.errors import RETRIABLE, ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import SEQUENCES, Record, build_batch

ALL: Final = -1
_BATCH_RECORDS_MAX: Final = 500
_BATCH_BYTES_MAX: Final = 512 * 1024
_REQUEST_MS: Final = 8_000
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Outgoing:
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    """None: chosen by the key, or in turn."""


@dataclass(frozen=True, slots=True)
class Written:
    """Records of one batch. The offset is None if only a repetition was acknowledged."""

    partition: int
    offset: int | None
    records: int


class Writer:
    def __init__(
        self, servers: str, topic: str, *, acks: int = ALL, timeout_s: float = 30.0, on_wait: OnWait
    ) -> None:
        """Raises `ClientError`. `timeout_s`: how long a batch is repeated."""
        self._topic = topic
        self._acks = acks
        self._timeout_s = timeout_s
        self._on_wait = on_wait
        self._leaders = Leaders(servers, topic)
        self._turn = 0
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaders.__exit__(kind, error, trace)

    @property
    def partitions(self) -> list[int]:
        return self._leaders.partitions

    def write(self, records: Sequence[Outgoing]) -> Iterator[Written]:
        """Send records; each batch as it is acknowledged. Raises `ClientError` if one is not."""
        placed = sorted(((self._place(each), each) for each in records), key=lambda each: each[0])
        now_ms = int(time.time() * 1000)
        for partition, group in groupby(placed, key=lambda each: each[0]):
            made = [Record(timestamp=now_ms, key=each.key, value=each.value) for _, each in group]
            for batch in _batches(made):
                yield self._send(partition, batch)

    def _place(self, record: Outgoing) -> int:
        partitions = self.partitions
        if record.partition is not None:
            return record.partition
        if record.key is not None:
            return partitions[partition_of(record.key, len(partitions))]
        self._turn += 1
        return partitions[(self._turn - 1) % len(partitions)]

    # ------------------------------------------------------------ one batch

    def _send(self, partition: int, records: list[Record]) -> Written:
        deadline = time.monotonic() + self._timeout_s
        producer_id, epoch = self._producer_id(deadline) if self._acks == ALL else (-1, -1)
        sequence = self._sequences.get(partition, 0) if producer_id >= 0 else -1
        batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        code, offset = self._repeat(lambda: self._attempt(partition, batch), deadline, partition)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise Refused(f"{self._topic}-{partition}", code, None)
        if sequence >= 0:
            self._sequences[partition] = (sequence + len(records)) % SEQUENCES
        return Written(partition, offset if offset >= 0 else None, len(records))

    def _attempt(self, partition: int, batch: bytes) -> tuple[int, int]:
        """The error code and the offset that a leader answers. Raises `ClientError` if none does."""
        data = TopicProduceData(
            name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
        )
        request = ProduceRequest(acks=self._acks, timeout_ms=_REQUEST_MS, topic_data=[data])
        leader = self._leaders.leader_id(partition)
        if leader < 0:
            raise ClientError(f"{self._topic}-{partition} has no leader")
        try:
            answer = self._leaders.client(leader).ask(Api.PRODUCE, request)
        except ClientError:
            self._leaders.forget(leader)
            raise
        part = answer.responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    def _repeat(
        self, attempt: Callable[[], tuple[int, int]], deadline: float, partition: int
    ) -> tuple[int, int]:
        """Until a leader answers with something else than "not now"."""
        while True:
            try:
                code, value = attempt()
                if code not in RETRIABLE:
                    return code, value
                why = f"{self._topic}-{partition}: {error_name(code)}"
            except Refused:
                raise
            except ClientError as error:
                why = str(error)
            if time.monotonic() > deadline:
                raise ClientError(f"not acknowledged after {self._timeout_s:g} s: {why}")
            self._on_wait(why)
            time.sleep(_POLL_SECONDS)
            self._leaders.look_again(self._on_wait)

    def _producer_id(self, deadline: float) -> tuple[int, int]:
        """From any broker; asked once."""
        if self._producer is None:
            epoch = 0

            def attempt() -> tuple[int, int]:
                nonlocal epoch
                leader = self._leaders.leader_id(self.partitions[0])
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_REQUEST_MS)
                try:
                    answer = self._leaders.client(leader).ask(Api.INIT_PRODUCER_ID, request)
                except ClientError:
                    self._leaders.forget(leader)
                    raise
                epoch = answer.producer_epoch
                return answer.error_code, answer.producer_id

            code, number = self._repeat(attempt, deadline, self.partitions[0])
            if code:
                raise Refused("a producer id", code, None)
            self._producer = number, epoch
        return self._producer


def _batches(records: list[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        length = len(record.key or b"") + len(record.value or b"")
        if batch and (len(batch) >= _BATCH_RECORDS_MAX or size + length > _BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch
