"""Doing things to the brokers of a cluster, and asking them who leads."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from bench.apache_kafka import ApacheKafka
from bench.processes import LOOPBACK, PATIENCE_SECONDS, eventually
from bench.tidelog_up import TidelogUp
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.clients import raw

Answer = TypeVar("Answer")


class ControlledCluster:
    """Three brokers under control. Whatever a test did to them, `heal` undoes."""

    def __init__(self, system: TidelogUp | ApacheKafka) -> None:
        self._system = system
        self.bootstrap_servers = system.bootstrap_servers
        self.brokers = sorted(system.nodes)
        self._ports = {number: node.port for number, node in system.nodes.items()}
        self._down: set[int] = set()
        self._paused: set[int] = set()

    # ------------------------------------------------------------ what is done to brokers

    def kill9(self, broker: int) -> None:
        self._system.kill_broker(broker)
        self._down.add(broker)
        self._paused.discard(broker)

    def stop(self, broker: int) -> None:
        """SIGTERM; returns when the process has ended."""
        self._system.stop_broker(broker)
        self._down.add(broker)

    def start(self, broker: int) -> None:
        """Start a broker again; returns when it knows the others and they know it."""
        self._system.start_broker(broker)
        self._down.discard(broker)
        eventually(self._is_whole, f"broker {broker} is back")

    def pause(self, broker: int) -> None:
        self._system.pause_broker(broker)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        self._system.resume_broker(broker)
        self._paused.discard(broker)

    def heal(self) -> None:
        for broker in sorted(self._paused):
            self.resume(broker)
        for broker in sorted(self._down):
            self._system.start_broker(broker)
        self._down.clear()
        eventually(self._is_whole, "all brokers know each other")

    @property
    def reachable(self) -> list[int]:
        return [number for number in self.brokers if number not in self._down | self._paused]

    def _is_whole(self) -> bool:
        known = [self.ask(number, "") for number in self.reachable]
        return all(each and set(self.reachable) <= set(each.brokers) for each in known)

    # ------------------------------------------------------------ what brokers say

    def controller(self) -> int:
        return self._agreed(lambda known: known.controller, "", "a controller")

    def leader(self, topic: str, partition: int = 0) -> int:
        return self._agreed(lambda known: known.leaders.get(partition), topic, f"a leader of {topic}")

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        """As any broker that answers knows it, which may be an older state."""
        for number in self.reachable:
            if known := self.ask(number, topic):
                return known.isr.get(partition, set())
        return set()

    def wait_for_isr(self, topic: str, isr: set[int], partitions: int = 1) -> None:
        """Until every broker that can be asked knows this set of in-sync replicas for every partition."""

        def settled() -> bool:
            known = [self.ask(number, topic) for number in self.reachable]
            wanted = dict.fromkeys(range(partitions), isr)
            return all(each and each.isr == wanted for each in known)

        eventually(settled, f"the ISR of {topic} is {isr}")

    def new_topic(self, partitions: int = 1, **config: str | int) -> str:
        """Three replicas, two of which must be in sync; all are when this returns."""
        name = f"failover-{uuid.uuid4().hex[:12]}"
        settings = {"min.insync.replicas": "2"} | {
            key.replace("_", "."): str(value) for key, value in config.items()
        }
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 3, config=settings)])[name].result(PATIENCE_SECONDS)
        self.wait_for_isr(name, set(self.brokers), partitions)
        return name

    def _agreed(self, question: Callable[[raw.Metadata], Answer | None], topic: str, what: str) -> Answer:
        """An answer that names a reachable broker and that all reachable brokers give alike."""

        def answer() -> tuple[Answer] | None:
            known = [self.ask(number, topic) for number in self.reachable]
            answers = {question(each) if each else None for each in known}
            (only,) = answers if len(answers) == 1 else (None,)
            return (only,) if only is not None and only in self.reachable else None

        return eventually(answer, f"all brokers name {what}")[0]

    def ask(self, broker: int, topic: str) -> raw.Metadata | None:
        try:
            return raw.metadata((LOOPBACK, self._ports[broker]), topic)
        except (OSError, raw.Closed):
            return None
