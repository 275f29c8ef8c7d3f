"""Where a long trial plays: a cluster of our own, or somebody else's Kafka.

A venue starts, says where clients begin, lets itself be hurt as far as it can be, and stops. What it cannot
give an audit it says at the beginning, with the reason.
"""

from __future__ import annotations

from typing import Any, Protocol

from tidelog.cluster.arena import Arena, ArenaPlan
from tidelog.evidence.folder import EvidenceFolder
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.trials.collection import collect_replicas
from tidelog.trials.faults.faults import ArenaFaults, Faults
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

    def faults(self, client_zones: dict[str, str]) -> Faults | None: ...
    def trouble(self) -> list[str]:
        """What happened here that nobody had planned, in words."""
        ...

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        """Stop it, and collect what it leaves."""
        ...


class OwnVenue:
    """Processes on this machine."""

    stage = "cluster"

    def __init__(self, plan: ArenaPlan, folder: EvidenceFolder) -> None:
        """Raises `SettingsError` if brokers could not run like that."""
        self._arena = Arena(plan, folder.cluster, folder.logs)

    def start(self) -> None:
        self._arena.start()

    def servers(self) -> str:
        return self._arena.bootstrap_servers

    def bootstrap_for(self, client: str, zone: str) -> str:
        return self._arena.bootstrap_for(client, zone)

    def command_in(self, client: str) -> list[str]:
        return self._arena.command_in(client)

    def describe(self, folder: EvidenceFolder) -> None:
        folder.manifest.generation = self._arena.plan.generation
        folder.manifest.settings["network"] = self._arena.plan.network
        folder.manifest.brokers = self._arena.where()

    def faults(self, client_zones: dict[str, str]) -> Faults | None:
        return ArenaFaults(self._arena, client_zones)

    def trouble(self) -> list[str]:
        return list(self._arena.deaths)

    def stop(self, folder: EvidenceFolder, topic: Topic | None) -> None:
        leaders = _leaders(self.servers(), topic.name) if topic is not None else {}
        self._arena.stop()
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

    def faults(self, client_zones: dict[str, str]) -> Faults | None:
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
