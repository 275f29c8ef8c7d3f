"""Clients of a cluster whose keeper is away: new producers, idempotent or not, and groups go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.clients.matrix.client import Client, Member
from tests.clients.matrix.python_clients import AioKafkaClient, ConfluentKafka, KafkaPythonClient
from tests.clients.matrix.remote import Java3, Java4, RemoteClient
from tests.groups.members import eventually

from tidelog import Cluster

KINDS: tuple[type[Client], ...] = (ConfluentKafka, KafkaPythonClient, AioKafkaClient, Java3, Java4)


def joined(client: Client, topic: str) -> Member:
    """A member of a new group that has its partition."""
    member = client.member(f"group-of-{topic}", topic, cooperative=False, instance=None)
    eventually(lambda: member.partitions() == {0}, [member])
    return member


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """The bootstrap servers of a cluster without its keeper. It has a topic for each client, and that of the
    groups' offsets."""
    with Cluster(brokers=3, settings={"offsets.topic.num.partitions": 1}) as cluster:
        for kind in KINDS:
            cluster.topic(kind.__name__, partitions=1)
        with closing(joined(ConfluentKafka(cluster.bootstrap_servers), ConfluentKafka.__name__)):
            pass
        cluster.stop_keeper()
        yield cluster.bootstrap_servers


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind is Java3 else ()) for kind in KINDS]
)
def test_a_new_client_produces_reads_joins_and_ends(kind: type[Client], alone: str) -> None:
    """Also idempotently, as the Java client does by default: brokers have reserved ids. A program of another
    language ends by itself afterwards; it need not be killed."""
    client, topic = kind(alone), kind.__name__
    with closing(client):
        client.produce(topic, ["plain"], idempotent=False)
        client.produce(topic, ["idempotent"], idempotent=True)
        assert client.consume(topic, 2) == ["plain", "idempotent"]
        with closing(joined(client, topic)) as member:
            member.commit()
    if isinstance(client, RemoteClient):
        assert client.exit_code == 0
