"""The cluster that is attacked: where its brokers are, and the topics that must stand on it.

Requests may create, alter and delete topics. So that the number of partitions stays bounded, whatever was
created is swept away now and then, and the standing topics are made anew.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fuzz.vocabulary import PARTITIONS, STANDING
from tidelog.cluster.directory import BrokerStatus, ClusterStatus, read_status
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.settings.kinds import Endpoint
from tidelog.wire.api import Api
from tidelog.wire.messages.api_versions import ApiVersionsRequest

SETTINGS: Final = {
    "group.max.session.timeout.ms": "10000",
    "connections.max.idle.ms": "15000",
}
"""Of the cluster: members and connections that were left alone are missed soon enough to be seen."""
IDLE_SECONDS: Final = 15.0
_RENEWED_EVERY_SECONDS: Final = 60.0
_SWEEP_PARTITIONS: Final = 60
"""Strange topics are let live until they have so many partitions together."""


class Target:
    def __init__(self, data_dir: Path) -> None:
        """Of a cluster that is ready; `data_dir` holds its `cluster.json`."""
        status = read_status(data_dir)
        assert status is not None, f"no cluster in {data_dir}"
        self._status: ClusterStatus = status
        self.neighbours_topic = f"neighbour-{secrets.token_hex(8)}"
        self._renewed_at = time.monotonic()

    @property
    def brokers(self) -> list[BrokerStatus]:
        return self._status.brokers

    @property
    def pid(self) -> int:
        """Of the process that started the brokers, and is their keeper."""
        return self._status.pid

    @property
    def bootstrap_servers(self) -> str:
        return self._status.bootstrap_servers

    @property
    def keeper(self) -> Endpoint:
        host, _, port = self._status.keeper.removeprefix("embedded://").rpartition(":")
        return Endpoint(host, int(port))

    @property
    def replicas(self) -> int:
        return min(3, len(self.brokers))

    def offered(self) -> dict[int, tuple[int, int]]:
        """The APIs that a client is offered, and their versions."""
        with Client.to(self.bootstrap_servers) as client:
            answer = client.ask(Api.API_VERSIONS, ApiVersionsRequest())
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    # ------------------------------------------------------------ topics

    def furnish(self) -> None:
        """Make the topics that the attack and the neighbour need."""
        with Admin(self.bootstrap_servers) as admin:
            least = {"min.insync.replicas": str(min(2, self.replicas))}
            admin.create(self.neighbours_topic, partitions=PARTITIONS, replicas=self.replicas, settings=least)
            for name in STANDING:
                self._stand(admin, name)
            admin.wait_for_leaders(self.neighbours_topic, PARTITIONS)

    def sweep(self, *, everything: bool = False) -> None:
        """Delete what was created, if it has become too much; make standing topics that are not there."""
        with suppress(ClientError), Admin(self.bootstrap_servers) as admin:
            found = {topic.name or "": len(topic.partitions) for topic in admin.metadata(None).topics}
            strange = found.keys() - STANDING.keys() - {self.neighbours_topic, OFFSETS_TOPIC}
            renewed = time.monotonic() > self._renewed_at + _RENEWED_EVERY_SECONDS
            if everything or renewed:
                self._renewed_at = time.monotonic()
                strange |= found.keys() & STANDING.keys()
            if everything or renewed or sum(found[name] for name in strange) > _SWEEP_PARTITIONS:
                for name in sorted(strange):
                    with suppress(ClientError):
                        admin.delete(name)
                        admin.wait_until_gone(name)
            for name in STANDING:
                if name not in found or name in strange:
                    self._stand(admin, name)

    def _stand(self, admin: Admin, name: str) -> None:
        with suppress(ClientError):  # an attacker was faster
            admin.create(name, partitions=PARTITIONS, replicas=self.replicas, settings=STANDING[name])
