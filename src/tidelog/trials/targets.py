"""The cluster that a trial runs on: one of our own, or an existing Kafka cluster.

A target starts, gives clients their bootstrap servers, offers a testbed for faults if it has one, and stops.
It enters the evidence that it cannot provide into the manifest, with the reason.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from tidelog.cluster.broker_process import exit_summary
from tidelog.cluster.brokers import LogFiles
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.cluster.testbed import ClusterTestbed
from tidelog.evidence.folder import EvidenceFolder
from tidelog.faults.testbed import HealingTestbed
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.trials.collection import collect_replicas
from tidelog.trials.load.topic import Topic


class LoadTarget(Protocol):
    stage: str

    def start(self) -> None: ...
    def servers(self) -> str:
        """The brokers, on a path that no fault affects."""
        ...

    def bootstrap_for(self, client: str, zone: str) -> str: ...
    def command_in(self, client: str) -> list[str]:
        """Words to put before a command so that it runs in the network of a client."""
        ...

    def describe(self, folder: EvidenceFolder) -> None:
        """Enter the cluster, and the evidence that it lacks, into the manifest."""
        ...

    def faults(self, client_zones: dict[str, str]) -> HealingTestbed | None: ...
    def trouble(self) -> list[str]:
        """Failures that are not part of the schedule, in words."""
        ...

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        """Stop it, and collect its replicas."""
        ...


class OwnCluster:
    """Processes on this machine."""

    stage = "cluster"

    def __init__(self, spec: ClusterSpec, folder: EvidenceFolder) -> None:
        """The data of brokers is below the evidence folder: it is the evidence of the replicas. Raises
        `SettingsError` for settings that brokers refuse."""
        self._deaths: list[str] = []
        self._logs = LogFiles(folder.logs)
        self._cluster = Cluster(
            spec,
            folder.cluster,
            on_line=self._logs,
            on_death=lambda process: self._deaths.append(exit_summary(process)),
        )

    def start(self) -> None:
        self._cluster.start()

    def servers(self) -> str:
        return self._cluster.bootstrap_servers

    def bootstrap_for(self, client: str, zone: str) -> str:
        return self._cluster.bootstrap_for(client, zone)

    def command_in(self, client: str) -> list[str]:
        return self._cluster.network.command_in(client)

    def describe(self, folder: EvidenceFolder) -> None:
        spec = self._cluster.spec
        folder.manifest.generation = self._cluster.status.generation
        folder.manifest.settings["network"] = spec.network
        folder.manifest.brokers = [
            {
                "id": broker.id,
                "zone": spec.zone_of(broker.id),
                "host": broker.host,
                "port": broker.port,
                "data_dir": os.path.relpath(broker.data_dir, self._cluster.data_dir.parent),
            }
            for broker in self._cluster.brokers
        ]

    def faults(self, client_zones: dict[str, str]) -> HealingTestbed | None:
        return ClusterTestbed(self._cluster, client_zones)

    def trouble(self) -> list[str]:
        return list(self._deaths)

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        leaders = _leaders(self.servers(), topic.name) if topic is not None else {}
        self._cluster.stop()
        self._logs.close()
        if topic is not None:
            collect_replicas(folder, topic.name, leaders)


class ExistingKafka:
    """An existing Kafka cluster. The trial only sends and reads."""

    stage = "foreign"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def start(self) -> None:
        """The cluster runs already. If it does not answer, the creation of the topic fails."""

    def servers(self) -> str:
        return self._servers

    def bootstrap_for(self, client: str, zone: str) -> str:
        return self._servers

    def command_in(self, client: str) -> list[str]:
        return []

    def describe(self, folder: EvidenceFolder) -> None:
        manifest = folder.manifest
        manifest.settings["bootstrap_servers"] = self._servers
        why = "the cluster is not ours: its processes and files are out of reach"
        for what in ("events", "replicas", "faults"):
            manifest.lacks(what, why)

    def faults(self, client_zones: dict[str, str]) -> HealingTestbed | None:
        return None

    def trouble(self) -> list[str]:
        return []

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        """The cluster keeps running."""


def _leaders(servers: str, topic: str) -> dict[int, dict[str, Any]]:
    """The leader of each partition at the end; nothing if no broker answers."""
    try:
        with Client.to(servers) as client:
            answer = client.metadata([topic])
    except ClientError:
        return {}
    return {
        part.partition_index: {
            "leader": part.leader_id,
            "leader_epoch": part.leader_epoch,
            "isr": list(part.isr_nodes),
        }
        for found in answer.topics
        for part in found.partitions
    }
