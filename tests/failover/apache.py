"""Apache Kafka with the methods of `tidelog.Cluster` that the tests of failures use (`--against kafka`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bench.apache_kafka import ApacheKafka, Node
from bench.processes import LOOPBACK

from tidelog.cluster.answers import Address, Answers, InSync
from tidelog.cluster.topics import create
from tidelog.kafka_client.admin import Admin


class KafkaUnderControl:
    def __init__(self, system: ApacheKafka) -> None:
        self._system = system
        self._paused: set[int] = set()
        self._answers = Answers(self._reachable, [node.id for node in self.brokers])

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
        return asyncio.run(self._answers.controller())

    def leader_of(self, topic: str) -> int:
        return asyncio.run(self._answers.leader_of(topic))

    def wait_isr(self, topic: str, wanted: InSync) -> None:
        asyncio.run(self._answers.wait_isr(topic, wanted))

    def wait_in_sync(self) -> None:
        asyncio.run(self._answers.wait_in_sync())

    def topic(self, name: str, partitions: int, *, config: Mapping[str, Any]) -> str:
        with Admin(self.bootstrap_servers) as admin:
            create(admin, name, partitions, None, config)
        return name

    def _reachable(self) -> dict[int, Address]:
        running = (node for node in self.brokers if node.process is not None and node.id not in self._paused)
        return {node.id: (LOOPBACK, node.port) for node in running}
