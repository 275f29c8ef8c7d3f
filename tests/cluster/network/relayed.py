"""A real cluster whose every connection runs through a switchboard, and clients of it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Any, Self

from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.running import QUIET, eventually, properties, registered_port, started

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.faults.places import KEEPER, Node
from tidelog.kafka_client.admin import Admin, PartitionView
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.keeper.embedded.server import EmbeddedKeeper

HOST = "127.0.0.1"
SESSION_MS = 1_500
LAG_MS = 1_500


class RelayedCluster:
    """Brokers 0 to 2, each in a zone of its own, and a keeper."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._processes: dict[int, tuple[ExitStack, Popen[str]]] = {}
        self.board = Switchboard(hang_ms=200)
        self.ports: dict[int, int] = {}
        self._topics: list[str] = []

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.callback(self._loop.close)
            self._thread.start()
            self._stack.callback(self._thread.join)
            self._stack.callback(lambda: self._loop.call_soon_threadsafe(self._loop.stop))
            self._stack.enter_context(self.board)
            self._start_keeper()
            self._stack.callback(self._end_all)
            for number in range(3):
                self.board.add(number, f"az{number + 1}")
                self.start(number)
            eventually(lambda: all(len(self._known(number)) == 3 for number in range(3)), "all know all")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start_keeper(self) -> None:
        keeper = EmbeddedKeeper(None, host=HOST)
        asyncio.run_coroutine_threadsafe(keeper.start(), self._loop).result()
        self._stack.callback(lambda: asyncio.run_coroutine_threadsafe(keeper.stop(), self._loop).result())
        self.board.place(KEEPER, HOST, keeper.port)

    # ------------------------------------------------------------ brokers

    def start(self, number: int) -> None:
        """On a port that is not known before."""
        routes = ",".join(
            "{}={}:{}".format(peer, *self.board.route(number, peer)) for peer in range(3) if peer != number
        )
        file = properties(
            self._folder / f"{number}.properties",
            {
                "broker.id": number,
                "listeners": f"PLAINTEXT://{HOST}:0",
                "log.dirs": self._folder / f"broker-{number}",
                "tidelog.keeper": "embedded://{}:{}".format(*self.board.route(number, KEEPER)),
                "tidelog.peer.routes": routes,
                "zookeeper.session.timeout.ms": SESSION_MS,
                "replica.lag.time.max.ms": LAG_MS,
                "offsets.topic.replication.factor": 3,
                "auto.create.topics.enable": "false",
                "tidelog.log.level": "warning",
            },
        )
        stack = ExitStack()
        process = stack.enter_context(started(file))
        self._processes[number] = stack, process
        self.ports[number] = registered_port(process)
        self.board.place(number, HOST, self.ports[number])

    def kill(self, number: int) -> None:
        self._processes.pop(number)[0].close()

    def _end_all(self) -> None:
        for number in list(self._processes):
            self.kill(number)

    # ------------------------------------------------------------ what brokers say, asked past the relays

    def _known(self, number: int) -> list[int]:
        try:
            with Client(HOST, self.ports[number]) as client:
                return [broker.node_id for broker in client.metadata([]).brokers]
        except ClientError:
            return []

    def controller(self) -> int:
        with Client(HOST, self.ports[0]) as client:
            return int(client.metadata([]).controller_id)

    def partition(self, topic: str, asked: int = 0) -> PartitionView | None:
        """Partition 0 as one broker sees it."""
        try:
            with Admin(f"{HOST}:{self.ports[asked]}") as admin:
                views = admin.topics([topic])
                admin.add_offsets(views)
                return views[0].partitions[0]
        except (ClientError, IndexError):
            return None

    def wait_for_isr(self, topic: str, isr: set[int], asked: int = 0) -> None:
        def reached() -> bool:
            seen = self.partition(topic, asked)
            return seen is not None and set(seen.isr) == isr

        eventually(reached, f"ISR {isr} of {topic}")

    def wait_for_leader(self, topic: str, leader: int, asked: int) -> None:
        def reached() -> bool:
            seen = self.partition(topic, asked)
            return seen is not None and seen.leader == leader

        eventually(reached, f"leader {leader} of {topic}")

    # ------------------------------------------------------------ clients

    def bootstrap(self, client: Node) -> str:
        return ",".join("{}:{}".format(*self.board.route(client, number)) for number in range(3))

    def client(self, zone: str) -> str:
        """A new client in a zone."""
        name = f"client-{uuid.uuid4().hex[:8]}"
        self.board.add(name, zone)
        return name

    def new_topic(self, replicas: list[int]) -> str:
        """Led by the first of its replicas; all are in sync when this returns."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        self._topics.append(name)
        admin = AdminClient({"bootstrap.servers": self.bootstrap("admin"), **QUIET})
        admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas])])[name].result(PATIENCE_SECONDS)
        for number in range(3):
            self.wait_for_leader(name, replicas[0], number)
            self.wait_for_isr(name, set(replicas), number)
        return name

    def delete_topics(self) -> None:
        """So that followers fetch only what a test has made."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap("admin"), **QUIET})
        for name, deleted in (admin.delete_topics(self._topics) if self._topics else {}).items():
            deleted.result(PATIENCE_SECONDS)
            eventually(partial(self._is_unknown, name), f"{name} is gone")
        self._topics.clear()

    def _is_unknown(self, topic: str) -> bool:
        return not any(self.partition(topic, number) for number in range(3))


class Sender:
    """A producer that remembers what became of each record."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        quick = {"linger.ms": 0, "reconnect.backoff.max.ms": 200, "acks": "all", **QUIET}
        self.producer = Producer({"bootstrap.servers": bootstrap} | quick | settings)
        self.outcomes: dict[str, str] = {}

    def send(self, topic: str, value: str) -> None:
        def delivered(error: Any, _message: Any) -> None:
            self.outcomes[value] = error.name() if error is not None else "ok"

        self.producer.produce(topic, value, partition=0, on_delivery=delivered)

    def outcome(self, value: str) -> str:
        """Empty while nothing is known."""
        self.producer.poll(0.01)
        return self.outcomes.get(value, "")

    def sent(self, topic: str, value: str) -> str:
        """What becomes of a record."""
        self.send(topic, value)
        return eventually(lambda: self.outcome(value), f"the fate of {value}")
