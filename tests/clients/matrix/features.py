"""What each feature of the matrix means: a short use of it, the same for every client, and what comes of it.

Whatever a client says it did is looked up with another: confluent-kafka, or the bytes on the wire.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.clients import raw
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.base import Outgoing
from tests.clients.drivers.confluent import Confluent, quiet
from tests.clients.matrix.client import FEATURES, Client, Member
from tests.groups.members import eventually, share_evenly

PARTITIONS = 4
VALUES = [f"value-{number}" for number in range(40)]
PRODUCER_ID_AT = 43
"""Where a batch has its producer's id; epoch and base sequence follow."""


@dataclass
class Ground:
    """The cluster to work with, and what has to be closed in the end."""

    cluster: Cluster
    topics: Topics
    closing: ExitStack

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def read(self, topic: str, count: int) -> list[str]:
        records = Confluent(self.servers).read(topic, 0, count)
        return [(record.value or b"").decode() for record in records]

    def filled(self, partitions: int) -> str:
        topic = self.topics.new(partitions=partitions)
        records = [Outgoing(value.encode(), partition=n % partitions) for n, value in enumerate(VALUES)]
        Confluent(self.servers).produce(topic, records)
        return topic

    def join(
        self,
        client: Client,
        group: str,
        topic: str,
        *,
        cooperative: bool = False,
        instance: str | None = None,
    ) -> Member:
        member = client.member(group, topic, cooperative=cooperative, instance=instance)
        self.closing.callback(member.close)
        return member


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


# ---------------------------------------------------------------- records


def produce(client: Client, ground: Ground) -> None:
    """Forty records with acks=all: they are there, in order, at the offsets that the client was told."""
    topic = ground.topics.new()
    offsets = client.produce(topic, VALUES, idempotent=False)
    assert offsets in (None, list(range(len(VALUES))))
    assert ground.read(topic, len(VALUES)) == VALUES


def consume(client: Client, ground: Ground) -> None:
    """Forty records, read from the beginning without a group."""
    assert client.consume(ground.filled(1), len(VALUES)) == VALUES


def idempotent(client: Client, ground: Ground) -> None:
    """With idempotence: every batch names its producer, and its sequence numbers have neither gap nor
    repetition."""
    topic = ground.topics.new()
    client.produce(topic, VALUES, idempotent=True)
    assert ground.read(topic, len(VALUES)) == VALUES
    batches = list(producers(ground, topic))
    assert all(producer_id >= 0 and epoch >= 0 for producer_id, epoch, _, _ in batches)
    assert len({producer_id for producer_id, *_ in batches}) == 1
    assert [sequence for _, _, sequence, _ in batches] == [offset for *_, offset in batches]


def producers(ground: Ground, topic: str) -> Iterator[tuple[int, int, int, int]]:
    """Producer id, epoch, base sequence and base offset of every batch of a short log."""
    leader = raw.leader_address(ground.cluster.brokers[0], topic)
    with raw.Connection(leader) as connection:
        fields = connection.ask(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body(topic, 0))
    records = raw.fetched(fields).records
    position = 0
    while position + raw.BATCH_OVERHEAD_BYTES <= len(records):
        offset, length = struct.unpack_from(">qi", records, position)
        yield (*struct.unpack_from(">qhi", records, position + PRODUCER_ID_AT), offset)
        position += 12 + length


# ---------------------------------------------------------------- groups


def groups(client: Client, ground: Ground) -> None:
    """Two members share four partitions and commit to the end; one leaves, and the other has them all."""
    topic, group = ground.filled(PARTITIONS), new_group()
    first = ground.join(client, group, topic)
    with closing(client.member(group, topic, cooperative=False, instance=None)) as second:
        both = [first, second]
        eventually(lambda: share_evenly(both, PARTITIONS), both)
        eventually(lambda: all_committed(ground, group, topic, both), both)
    eventually(lambda: len(first.partitions()) == PARTITIONS, [first])


def all_committed(ground: Ground, group: str, topic: str, members: list[Member]) -> bool:
    for member in members:
        member.commit()
    wanted = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with closing(Consumer({**quiet(ground.servers), "group.id": group})) as reader:
        try:
            found = reader.committed(wanted, timeout=PATIENCE_SECONDS)
        except KafkaException:
            return False
    return [each.offset for each in found] == [len(VALUES) // PARTITIONS] * PARTITIONS


def cooperative(client: Client, ground: Ground) -> None:
    """A second member joins: the first gives up half of its partitions, and never the others."""
    topic, group = ground.filled(PARTITIONS), new_group()
    first = ground.join(client, group, topic, cooperative=True)
    eventually(lambda: len(first.partitions()) == PARTITIONS, [first])
    second = ground.join(client, group, topic, cooperative=True)
    eventually(lambda: share_evenly([first, second], PARTITIONS), [first, second])
    assert first.revoked == second.partitions()


def static(client: Client, ground: Ground) -> None:
    """A member with a name of its own ends without a word and comes back: it has what it had, and the other
    one was told nothing."""
    topic, group = ground.filled(PARTITIONS), new_group()
    other = ground.join(client, group, topic, instance="other")
    with closing(client.member(group, topic, cooperative=False, instance="static")) as old:
        eventually(lambda: share_evenly([other, old], PARTITIONS), [other, old])
        for member in (other, old) * 3:  # some clients count the rebalance after they show its partitions
            member.poll()
        had, told = old.partitions(), other.rebalances
    new = ground.join(client, group, topic, instance="static")
    eventually(lambda: bool(new.partitions()), [other, new])
    assert new.partitions() == had
    assert other.rebalances == told


def admin(client: Client, ground: Ground) -> None:
    """A topic is created, described and deleted."""
    topic = ground.topics.name("administered")
    assert client.administer(topic) == 2
    eventually(lambda: not raw.metadata(ground.cluster.brokers[0], topic).leaders)


PLAY: dict[str, Callable[[Client, Ground], None]] = {
    "produce": produce,
    "consume": consume,
    "groups": groups,
    "cooperative": cooperative,
    "static": static,
    "idempotent": idempotent,
    "admin": admin,
}
assert tuple(PLAY) == FEATURES
