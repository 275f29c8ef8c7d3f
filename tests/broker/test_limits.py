"""What clients can make a broker hold, and how long: connections, requests, bytes. One cannot hurt others."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bench.processes import resident_bytes
from tests.broker.running import Lines, address, create, eventually, produce
from tests.clients import raw
from tests.clients.raw import Closed, Connection

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec

pytestmark = pytest.mark.slow

CONNECTIONS_MAX, PER_ADDRESS_MAX = 60, 40
REQUESTS_OPEN_MAX = 50
REQUEST_BYTES_MAX = 2_000_000
LARGE = 1_000_000
TOPIC = "subject"


class Broker:
    def __init__(self, cluster: Cluster, lines: Lines) -> None:
        self.cluster = cluster
        self.lines = lines
        self.address = address(cluster, 1)

    def works(self) -> None:
        """The broker answers a well-behaved client."""
        with Connection(self.address) as other:
            for _ in range(10):
                other.ask(raw.API_VERSIONS, 0, b"")

    def memory(self) -> int:
        return resident_bytes(self.cluster.pids[1])


def running(folder: Path, **settings: str | int) -> Iterator[Broker]:
    lines = Lines()
    overrides = {name.replace("_", "."): str(value) for name, value in settings.items()}
    with Cluster(ClusterSpec(brokers=1, settings=overrides), folder, on_line=lines) as cluster:
        create(cluster, TOPIC)
        yield Broker(cluster, lines)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from running(
        tmp_path_factory.mktemp("limits"),
        max_connections=CONNECTIONS_MAX,
        max_connections_per_ip=PER_ADDRESS_MAX,
        queued_max_requests=REQUESTS_OPEN_MAX,
        socket_request_max_bytes=REQUEST_BYTES_MAX,
    )


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from running(tmp_path_factory.mktemp("idle"), connections_max_idle_ms=500)


# ---------------------------------------------------------------- connections


def is_served(connection: Connection) -> bool:
    try:
        connection.ask(raw.API_VERSIONS, 0, b"")
    except Closed:
        return False
    return True


class From(Connection):
    """A connection from one of this machine's many addresses."""

    def __init__(self, broker: Broker, source: str) -> None:
        self.socket = socket.create_connection(broker.address, 20, source_address=(source, 0))
        self._correlation = 0


def test_connections_are_counted_by_address_and_in_all(broker: Broker):
    """Who comes too late is hung up on; who is there stays; a place that is given up can be had again."""
    with ExitStack() as stack:
        first = [stack.enter_context(From(broker, "127.0.0.2")) for _ in range(PER_ADDRESS_MAX)]
        assert all(map(is_served, first))
        with From(broker, "127.0.0.2") as one_too_many:
            assert not is_served(one_too_many)
        rest = CONNECTIONS_MAX - PER_ADDRESS_MAX
        second = [stack.enter_context(From(broker, "127.0.0.3")) for _ in range(rest)]
        served = sum(map(is_served, second))
        with From(broker, "127.0.0.4") as one_too_many:
            assert not is_served(one_too_many)
        assert served >= rest - 2  # there may be other connections, such as the one that created the topic
        assert all(map(is_served, first))
    eventually(lambda: is_served_once(broker), "there is room again")
    said = broker.lines.only("refused a connection from 127.0.0.2:")
    assert f"max.connections.per.ip={PER_ADDRESS_MAX}" in said
    assert not broker.lines.with_words("refused a connection from 127.0.0.4:")  # one line a minute


def is_served_once(broker: Broker) -> bool:
    with From(broker, "127.0.0.2") as connection:
        return is_served(connection)


def test_idle_connections_are_closed(impatient: Broker):
    """Also with half a request sent, and also one whose client does not take its answers."""
    half = raw.frame(raw.METADATA, raw.METADATA_VERSION, 1, raw.metadata_body(TOPIC))[:-3]
    assert not produce(impatient.cluster, TOPIC, ["x" * 10_000] * 100)
    with ExitStack() as stack:
        silent, stuck, deaf = (stack.enter_context(Connection(impatient.address)) for _ in range(3))
        stuck.send(half)
        for _ in range(100):
            deaf.request(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body(TOPIC, 0))
        assert silent.is_closed_by_peer()
        assert stuck.is_closed_by_peer()
        with pytest.raises(Closed):
            read_all(deaf)


def read_all(connection: Connection) -> None:
    while True:
        connection.response()


def test_who_waits_for_an_answer_is_not_idle(impatient: Broker):
    """A fetch may wait far longer than connections may be idle. The time counts from its answer."""
    with Connection(impatient.address, patience_seconds=60) as connection:
        for _ in range(2):
            waiting = raw.fetch_body(TOPIC, 0, wait_ms_max=1500, bytes_min=1 << 30)
            fetched = raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, waiting))
            assert fetched.error == raw.NONE
        assert connection.is_closed_by_peer()


def test_connections_may_be_idle_for_ever(tmp_path: Path):
    for broker in running(tmp_path, connections_max_idle_ms=-1):
        broker.works()
        assert not broker.lines.with_words("ERROR")


# ---------------------------------------------------------------- requests


def test_hundreds_of_requests_in_flight_are_answered_in_order(broker: Broker):
    """Many more than the broker holds open for one connection, behind one that has to wait."""
    with Connection(broker.address) as connection:
        frames = [
            raw.frame(
                *(raw.FETCH, raw.FETCH_VERSION, 0),
                raw.fetch_body(TOPIC, 0, wait_ms_max=300, bytes_min=1 << 30),
            )
        ]
        batch = raw.batch([b"one of many"])
        for number in range(1, 12 * REQUESTS_OPEN_MAX):
            if number % 3:
                body = raw.produce_body(TOPIC, batch)
                frames.append(raw.frame(raw.PRODUCE, raw.PRODUCE_VERSION, number, body))
            else:
                body = raw.metadata_body(TOPIC)
                frames.append(raw.frame(raw.METADATA, raw.METADATA_VERSION, number, body))
        connection.send(b"".join(frames))
        offsets = []
        for number in range(len(frames)):
            correlation, fields = connection.response()
            assert correlation == number
            if number % 3:
                offsets.append(raw.produced(fields).base_offset)
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    broker.works()


def test_a_client_that_reads_nothing_does_not_fill_the_memory(broker: Broker):
    """It is not read from, and nothing is read for it, until it takes what it was given; then it gets all."""
    topic, count = "bulk", 120
    create(broker.cluster, topic, max_message_bytes=LARGE)
    # More than stays in memory anyway, so that what is asked for must be read from files.
    assert not produce(broker.cluster, topic, ["x" * 100_000] * 70)
    with Connection(broker.address, patience_seconds=60) as deaf:
        before = broker.memory()
        requests = [
            raw.frame(raw.FETCH, raw.FETCH_VERSION, number, raw.fetch_body(topic, 0))
            for number in range(count)
        ]
        deaf.send(b"".join(requests))
        broker.works()  # so the requests have been handled
        assert broker.memory() - before < 30 * LARGE
        for number in range(count):
            correlation, fields = deaf.response()
            assert correlation == number
            assert len(raw.fetched(fields).records) > LARGE / 2


def test_a_request_that_is_too_large(broker: Broker):
    """It is refused by its size alone, with one line; a smaller one of the same kind passes."""
    for size, passes in ((REQUEST_BYTES_MAX - 1000, True), (REQUEST_BYTES_MAX + 1, False)):
        with Connection(broker.address) as connection:
            connection.send(struct.pack(">i", size))
            if passes:
                broker.works()
            else:
                assert connection.is_closed_by_peer()
    said = broker.lines.only("closed the connection", str(REQUEST_BYTES_MAX))
    assert said.endswith(f"a frame of {REQUEST_BYTES_MAX + 1} bytes; allowed are 0 to {REQUEST_BYTES_MAX}")


def test_half_a_request_waits_and_hinders_nobody(broker: Broker):
    body = raw.produce_body(TOPIC, raw.batch([b"late"]))
    whole = raw.frame(raw.PRODUCE, raw.PRODUCE_VERSION, 5, body)
    with Connection(broker.address) as slow:
        slow.send(whole[:30])
        for _ in range(10):
            broker.works()
        slow.send(whole[30:])
        correlation, fields = slow.response()
        assert correlation == 5
        assert raw.produced(fields).error == raw.NONE
