"""Which brokers of a running cluster are meant: by id, as the leader of a partition, or as the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.cluster.conditions import answering
from tidelog.cluster.directory import ClusterStatus
from tidelog.errors import Refusal
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client

ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    named: list[str] | None
    """Ids, or ``all``."""
    leader_of: str | None = None
    """A partition, ``TOPIC-N``, or a topic for its partition 0."""
    controller: bool = False

    def of(self, status: ClusterStatus, folder: Path) -> list[int]:
        """Raises `Refusal` if a broker is not there, or none is named."""
        known = [broker.id for broker in status.brokers]
        named, leader_of = self.named or [], self.leader_of
        chosen = known.copy() if ALL in named else [_number(name, known) for name in named]
        if leader_of is not None:
            chosen.append(_asked(status, folder, lambda servers: _leader(servers, leader_of)))
        if self.controller:
            chosen.append(_asked(status, folder, _controller))
        if not chosen:
            raise Refusal(f"which broker? Give {_ids(known)} or {ALL}")
        return list(dict.fromkeys(chosen))


def _number(name: str, known: list[int]) -> int:
    if not name.isdecimal() or int(name) not in known:
        raise Refusal(f"there is no broker {name}: give {_ids(known)} or {ALL}")
    return int(name)


def _ids(known: list[int]) -> str:
    return ", ".join(map(str, known[:5])) + (", …" if len(known) > 5 else "")


def _asked(status: ClusterStatus, folder: Path, question: Callable[[str], int]) -> int:
    servers = answering(status, folder)
    if not servers:
        raise Refusal("no broker of the cluster can answer: tidelog status shows why")
    return question(servers)


def _leader(servers: str, partition: str) -> int:
    name, _, number = partition.rpartition("-")
    with Admin(servers) as admin:
        views = {view.name: view for view in admin.topics()}
        if not (name in views and number.isdecimal()):
            name, number = partition, "0"
        if name not in views:
            raise Refusal(
                f"--leader-of {partition}: there is no topic {name}; tidelog topics list shows them"
            )
        found = next((part for part in views[name].partitions if part.number == int(number)), None)
    if found is None:
        raise Refusal(
            f"--leader-of {partition}: {name} has partitions 0 to {len(views[name].partitions) - 1}"
        )
    if found.leader < 0:
        raise Refusal(f"--leader-of {partition}: the partition has no leader now")
    return found.leader


def _controller(servers: str) -> int:
    with Client.to(servers) as client:
        number = client.metadata([]).controller_id
    if number < 0:
        raise Refusal("--controller: the cluster has no controller now")
    return number
