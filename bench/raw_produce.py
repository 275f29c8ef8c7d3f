"""Produce requests made beforehand and sent as they are: what a broker takes, without what a client costs.

A client library spends as much time on a record as a broker does, and spends it otherwise for idempotent
records. Here the same bytes go out, with or without a producer's id, five requests in flight unless told
otherwise.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.client_load import Load, Miscounted, Stopwatch
from bench.processes import eventually

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build_batch

IN_FLIGHT = 5
RECORDS_A_BATCH = 20
RECORD_BYTES = 100
NO_PRODUCER = (-1, -1)


class RawProducer:
    """Sends to partition 0 of one topic, with acks=all."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        idempotent: bool,
        records: int = RECORDS_A_BATCH,
        record_bytes: int = RECORD_BYTES,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        """`records` of `record_bytes` make a request."""
        self._topic = topic
        self._idempotent = idempotent
        self._records = records
        self._record_bytes = record_bytes
        self._in_flight = in_flight
        with Client.to(bootstrap_servers) as broker:
            self._leader = eventually(lambda: _leader(broker, topic), f"a leader of {topic}", 30.0)
            self._version = broker.version_of(Api.PRODUCE)
            self._producer = NO_PRODUCER
            if idempotent:
                self._producer = eventually(lambda: _producer_id(broker), "a producer's id", 60.0)

    def load(self, requests: int, broker_pids: Sequence[int]) -> Load:
        # Requests that differ in nothing are sent again: a thousand large ones would fill the memory.
        kinds = requests if self._idempotent else 1
        frames = [self._frame(number) for number in range(kinds)] * (requests // kinds)
        with self.connected() as connection:
            watch = Stopwatch(broker_pids)
            answers = exchange(connection, frames, self._in_flight)
            records = requests * self._records
            load = watch.load(records, records * self._record_bytes)
        for answer in answers:
            part = decode_response(Api.PRODUCE, self._version, answer)[1].responses[0].partition_responses[0]
            if part.error_code:
                raise Miscounted(f"{self._topic}: error {part.error_code}")
        return load

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(self._leader, 30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection

    @property
    def frame(self) -> bytes:
        """A request that is not idempotent."""
        return self._frame(0)

    @property
    def batch(self) -> bytes:
        """The records of a request that is not idempotent."""
        return self._batch(-1)

    def _batch(self, sequence: int) -> bytes:
        now = int(time.time() * 1000)
        records = [Record(timestamp=now, key=None, value=b"x" * self._record_bytes)] * self._records
        producer_id, epoch = self._producer
        return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    def _frame(self, number: int) -> bytes:
        batch = self._batch(number * self._records if self._idempotent else -1)
        data = TopicProduceData(
            name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
        return b"".join(encode_request(Api.PRODUCE, self._version, number, "bench", request))


def _leader(broker: Client, topic: str) -> tuple[str, int] | None:
    """Where the leader is; None as long as this broker has not heard of it."""
    known = broker.metadata([topic])
    leaders = [part.leader_id for each in known.topics for part in each.partitions]
    return next(((each.host, each.port) for each in known.brokers if each.node_id in leaders), None)


def _producer_id(broker: Client) -> tuple[int, int] | None:
    """An id and its epoch; None while no broker answers with one, as for a moment after a start."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    given = broker.ask(Api.INIT_PRODUCER_ID, request)
    return None if given.error_code else (given.producer_id, given.producer_epoch)


def exchange(connection: socket.socket, frames: Sequence[bytes], in_flight: int) -> list[bytearray]:
    """Send every frame, with at most `in_flight` of them unanswered. Returns the answers."""
    answers: list[bytearray] = []
    for number in range(len(frames) + in_flight):
        if number < len(frames):
            connection.sendall(frames[number])
        if number >= in_flight - 1 and len(answers) < len(frames):
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            answers.append(_exactly(connection, size))
    return answers


def _exactly(connection: socket.socket, size: int) -> bytearray:
    received = bytearray(size)
    rest = memoryview(received)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise Miscounted("the broker hung up")
        rest = rest[count:]
    return received
