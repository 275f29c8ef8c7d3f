"""Where a long trial plays: a cluster of our own, or somebody else's Kafka.

A venue starts, says where clients begin, lets itself be hurt as far as it can be, and stops. What it cannot
give an audit it says at the beginning, with the reason.
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


class Venue(Protocol):
    stage: str

    def start(self) -> None: ...
    def servers(self) -> str:
        """The brokers themselves, for whoever watches."""
        ...

    def bootstrap_for(self, client: str, zone: str) -> str: ...
    def command_in(self, client: str) -> list[str]:
        """Words to put before a command for it to run where a client stands that has been given its
        bootstrap."""
        ...

    def describe(self, folder: EvidenceFolder) -> None:
        """Enter what there is, and what there is not, into `trial.json`."""
        ...

    def faults(self, client_zones: dict[str, str]) -> HealingTestbed | None: ...
    def trouble(self) -> list[str]:
        """What happened here that nobody had planned, in words."""
        ...

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        """Stop it, and collect what it leaves."""
        ...


class OwnVenue:
    """Processes on this machine."""

    stage = "cluster"

    def __init__(self, spec: ClusterSpec, folder: EvidenceFolder) -> None:
        """Data of brokers is kept below the evidence: after the trial it *is* the evidence of the replicas.
        Raises `SettingsError` if brokers could not run like that."""
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


class ForeignVenue:
    """A Kafka that somebody else runs. Nothing is done to it but sending and reading."""

    stage = "foreign"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def start(self) -> None:
        """There is nothing to start; whether anybody answers shows when the topic is created."""

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
        """It goes on without us."""


def _leaders(servers: str, topic: str) -> dict[int, dict[str, Any]]:
    """Who leads each partition at the end; nothing if nobody can be asked."""
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
