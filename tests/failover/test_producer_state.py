"""What brokers know of an idempotent producer outlives them: by the bytes that a client would send."""

from __future__ import annotations

import struct
import time

import pytest
from bench.processes import LOOPBACK, PATIENCE_SECONDS, eventually
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients import raw
from tests.failover.conftest import Controlled, NewTopic

pytestmark = pytest.mark.slow

REMEMBERED = 5
NOT_NOW = (raw.NOT_LEADER_OR_FOLLOWER, 3, 5, 7, 19, 20)
"""The leader moves or waits for its followers: a client would send again, and so does this one."""
SEQUENCES = 2**31


class Producer:
    """Its batches have one record each by default."""

    def __init__(self, cluster: Controlled, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic
        body = raw.string(None) + struct.pack(">i", 60_000)
        with self._leader() as connection:
            fields = connection.ask(raw.INIT_PRODUCER_ID, 1, body)
        fields.int32()  # throttle
        assert fields.int16() == raw.NONE
        self.id = fields.int64()

    def _leader(self) -> raw.Connection:
        leader = self._cluster.leader_of(self.topic)
        [port] = (broker.port for broker in self._cluster.brokers if broker.id == leader)
        return raw.Connection((LOOPBACK, port))

    def send(
        self, sequence: int, *, epoch: int = 0, records: int = 1, timestamp: int | None = None
    ) -> raw.Produced:
        values = [b"record"] * records
        batch = raw.batch(values, producer=(self.id, epoch, sequence), timestamp=timestamp)
        body = raw.produce_body(self.topic, batch)
        answers: list[raw.Produced] = []

        def answered() -> bool:
            try:
                with self._leader() as connection:
                    answer = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
            except (OSError, raw.Closed):
                return False
            answers.append(answer)
            return answer.error not in NOT_NOW

        eventually(answered, "an answer of the leader", 60.0)
        return answers[-1]

    def refused(self, sequence: int, error: int, *, epoch: int = 0, records: int = 1) -> None:
        assert self.send(sequence, epoch=epoch, records=records).error == error

    def check(self, count: int) -> None:
        """The last batches are known where they are, an older one and a gap are out of order."""
        for sequence in range(count - REMEMBERED, count):
            assert self.send(sequence) == raw.Produced(raw.NONE, sequence)
        self.refused(count - REMEMBERED - 1, raw.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.refused(count + 1, raw.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.refused(count, raw.INVALID_PRODUCER_EPOCH, epoch=-1)


def test_sequences_outlive_leaders_and_processes(
    cluster: Controlled, new_topic: NewTopic, brokers: list[int]
) -> None:
    """The leader is killed; then all brokers are, and start again: each time the last five batches are
    answered with their first offsets, and the sequence goes on where it was."""
    topic = new_topic()
    producer = Producer(cluster, topic)
    for sequence in range(8):
        assert producer.send(sequence) == raw.Produced(raw.NONE, sequence)
    producer.check(8)
    cluster.kill(cluster.leader_of(topic))
    producer.check(8)
    assert producer.send(8) == raw.Produced(raw.NONE, 8)
    cluster.heal()
    cluster.wait_isr(topic, 3)
    for broker in brokers:
        cluster.kill(broker)
    cluster.heal()
    producer.check(9)
    assert producer.send(9) == raw.Produced(raw.NONE, 9)


def test_rules_of_a_sequence(cluster: Controlled, new_topic: NewTopic) -> None:
    """Nothing is known of a producer: any number will do (KIP-360; before it UNKNOWN_PRODUCER_ID was said).
    After the largest number comes 0, a new epoch begins at 0, an old one is over."""
    producer = Producer(cluster, new_topic())
    assert producer.send(SEQUENCES - 2, records=3) == raw.Produced(raw.NONE, 0)
    assert producer.send(SEQUENCES - 2, records=3) == raw.Produced(raw.NONE, 0)
    producer.refused(SEQUENCES - 2, raw.OUT_OF_ORDER_SEQUENCE_NUMBER, records=2)
    producer.refused(0, raw.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert producer.send(1) == raw.Produced(raw.NONE, 3)
    producer.refused(2, raw.OUT_OF_ORDER_SEQUENCE_NUMBER, epoch=1)
    assert producer.send(0, epoch=1) == raw.Produced(raw.NONE, 4)
    producer.refused(2, raw.INVALID_PRODUCER_EPOCH)
    assert producer.send(1, epoch=1) == raw.Produced(raw.NONE, 5)


def test_deleted_records_are_still_counted(cluster: Controlled, new_topic: NewTopic) -> None:
    """The records of a producer are deleted: its last batches are known all the same, here and by the next
    leader."""
    topic = new_topic()
    producer = Producer(cluster, topic)
    for sequence in range(6):
        assert producer.send(sequence).error == raw.NONE
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        deleted.result(PATIENCE_SECONDS)
    producer.check(6)
    cluster.kill(cluster.leader_of(topic))
    producer.check(6)
    assert producer.send(6) == raw.Produced(raw.NONE, 6)


def test_silent_producers_are_forgotten(cluster: Controlled, new_topic: NewTopic) -> None:
    """By the time of its last batch one has been silent for longer than `producer.id.expiration.ms`: it may
    go on with any number. The other one may not."""
    topic = new_topic()
    silent, heard = Producer(cluster, topic), Producer(cluster, topic)
    long_ago = int(time.time() * 1000) - 2 * 3_600_000
    assert silent.send(0, timestamp=long_ago).error == raw.NONE
    assert heard.send(0).error == raw.NONE
    eventually(lambda: silent.send(7).error == raw.NONE, "a producer is forgotten", 60.0)
    heard.refused(7, raw.OUT_OF_ORDER_SEQUENCE_NUMBER)
