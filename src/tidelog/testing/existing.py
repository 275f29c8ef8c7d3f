"""A Kafka cluster that runs already: tests create topics there and use it; faults are out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import pytest

from tidelog.cluster.client_config import client_config
from tidelog.cluster.topics import Replicas, create
from tidelog.cluster.waits import Waits
from tidelog.errors import Refusal
from tidelog.kafka_client.admin import Admin

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
            if not admin.wait_for_leaders(name, count):
                raise Refusal(f"{self.bootstrap_servers}: {name} has no leaders")
        return name

    def delete_topics(self) -> None:
        """Those that were created here."""
        with Admin(self.bootstrap_servers) as admin:
            for name in self._created:
                admin.delete(name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"{name}: {WHY}")
