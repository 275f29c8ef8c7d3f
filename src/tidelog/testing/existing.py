"""A Kafka cluster that runs already: tests create topics there and use it; faults are out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import pytest

from tidelog.cluster.answers import ANSWER_SECONDS, InSync, are_in_sync, described_isr, in_sync
from tidelog.cluster.client_config import client_config
from tidelog.cluster.topics import Replicas, create
from tidelog.cluster.waits import WAIT_SECONDS, Waits, wait_until
from tidelog.kafka_client.admin import Admin
from tidelog.wire.messages.metadata import MetadataResponse

WHY: Final = "a cluster that runs already (--kafka-bootstrap-servers) cannot be harmed"


class ExistingCluster(Waits):
    """What a `Cluster` has that any Kafka has. A test that asks for more is skipped."""

    def __init__(self, bootstrap_servers: str) -> None:
        """Raises `Refusal` if no broker answers there."""
        super().__init__(lambda: bootstrap_servers)
        with Admin(bootstrap_servers):
            pass
        self.bootstrap_servers = bootstrap_servers
        self._created: list[str] = []

    def client_config(self, library: str, client: str = "", zone: str = "") -> dict[str, Any]:
        return client_config(library, self.bootstrap_servers)

    def topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: Replicas = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a topic; returns its name when it has leaders."""
        with Admin(self.bootstrap_servers) as admin:
            count = create(admin, name, partitions, replicas, config)
            self._created.append(name)

            def seen() -> str:
                leaders = [
                    part.leader_id for each in admin.metadata([name]).topics for part in each.partitions
                ]
                return "" if len(leaders) >= count and min(leaders) >= 0 else f"leaders {leaders}"

            wait_until(seen, f"{count} partitions of {name} with leaders", WAIT_SECONDS)
        return name

    def wait_isr(self, topic: str, wanted: InSync, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Wait until this many replicas, or these brokers, are in sync for each partition of a topic."""

        def seen() -> str:
            found = in_sync(self._metadata([topic]))
            return "" if are_in_sync(found, wanted) else f"in sync {[sorted(each) for each in found]}"

        wait_until(seen, described_isr(topic, wanted), timeout_s)

    def wait_in_sync(self, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until all replicas of the topics that were created here are in sync."""

        def seen() -> str:
            behind = {
                f"{topic.name}-{part.partition_index}": sorted(part.isr_nodes)
                for topic in self._metadata(self._created).topics
                for part in topic.partitions
                if set(part.isr_nodes) != set(part.replica_nodes)
            }
            return f"in sync {behind}" if behind else ""

        wait_until(seen, "all replicas in sync", timeout_s)

    def _metadata(self, topics: list[str]) -> MetadataResponse:
        with Admin(self.bootstrap_servers) as admin:
            return admin.metadata(topics)

    def delete_topics(self) -> None:
        """Those that were created here."""
        with Admin(self.bootstrap_servers) as admin:
            for name in self._created:
                admin.delete(name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"{name}: {WHY}")
