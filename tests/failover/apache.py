"""Apache Kafka with the methods of `tidelog.Cluster` that the tests of failures use (`--against kafka`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from bench.apache_kafka import ApacheKafka, Node
from bench.processes import LOOPBACK, PATIENCE_SECONDS

from tidelog.cluster import observe
from tidelog.cluster.topics import create
from tidelog.kafka_client.admin import Admin

Answer = TypeVar("Answer")


class KafkaUnderControl:
    def __init__(self, system: ApacheKafka) -> None:
        self._system = system
        self._paused: set[int] = set()

    @property
    def bootstrap_servers(self) -> str:
        return self._system.bootstrap_servers

    @property
    def brokers(self) -> list[Node]:
        return list(self._system.nodes.values())

    def kill(self, broker: int) -> None:
        self._system.kill_broker(broker)
        self._paused.discard(broker)

    def stop_broker(self, broker: int) -> None:
        self._system.stop_broker(broker)

    def start_broker(self, broker: int) -> None:
        self._system.start_broker(broker)

    def pause(self, broker: int) -> None:
        self._system.pause_broker(broker)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        self._system.resume_broker(broker)
        self._paused.discard(broker)

    def heal(self) -> list[str]:
        for broker in sorted(self._paused):
            self.resume(broker)
        for node in self.brokers:
            if node.process is None:
                self.start_broker(node.id)
        return []

    # ------------------------------------------------------------ what brokers say

    @property
    def controller(self) -> int:
        return self._ask(observe.agreed_controller)

    def leader_of(self, topic: str) -> int:
        return self._ask(observe.agreed_leader, topic, 0)

    def wait_isr(self, topic: str, wanted: observe.InSync) -> None:
        self._ask(observe.wait_isr, topic, wanted)

    def wait_in_sync(self) -> None:
        self._ask(observe.wait_in_sync, [node.id for node in self.brokers])

    def topic(self, name: str, partitions: int, *, config: Mapping[str, Any]) -> str:
        with Admin(self.bootstrap_servers) as admin:
            create(admin, name, partitions, None, config)
        return name

    def _reachable(self) -> dict[int, observe.Address]:
        running = (node for node in self.brokers if node.process is not None and node.id not in self._paused)
        return {node.id: (LOOPBACK, node.port) for node in running}

    def _ask(self, question: Callable[..., Coroutine[Any, Any, Answer]], *about: object) -> Answer:
        return asyncio.run(question(self._reachable, *about, PATIENCE_SECONDS))
