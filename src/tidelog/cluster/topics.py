"""Topics of a running cluster: created so that the next request finds them everywhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.observe import metadata
from tidelog.cluster.spec import as_texts
from tidelog.kafka_client.admin import DEFAULT, Admin
from tidelog.kafka_client.blocking import ClientError
from tidelog.settings.table import SettingsError

if TYPE_CHECKING:
    from tidelog.cluster.cluster import Cluster

_KNOWN_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005


Replicas = int | str | Sequence[Sequence[int]] | None
"""How many replicas, or which brokers have each partition, its leader first; None: as many as is usual."""


def create(
    admin: Admin, name: str, partitions: int, replicas: Replicas, config: Mapping[str, Any] | None
) -> int:
    """Ask for a topic; how many partitions it gets. Raises `ClientError` and `SettingsError`."""
    settings = as_texts(config or {})
    if replicas is None or isinstance(replicas, int | str):
        count = DEFAULT if replicas is None else int(replicas)
        admin.create(name, partitions=int(partitions), replicas=count, settings=settings)
        return int(partitions)
    if int(partitions) not in (1, len(replicas)):
        raise SettingsError(f"topic {name}: brokers for {len(replicas)} of {partitions} partitions")
    brokers = [[int(each) for each in those] for those in replicas]
    admin.create(name, assignment=brokers, settings=settings)
    return len(brokers)


def create_topic(
    cluster: Cluster, name: str, partitions: int, replicas: Replicas, config: Mapping[str, Any] | None
) -> None:
    """Raises `ClusterError` and `SettingsError`."""
    try:
        with Admin(cluster.supervisor.reachable_servers) as admin:
            created = create(admin, name, partitions, replicas, config)
    except ClientError as error:
        raise ClusterError(str(error)) from None
    wait_known(cluster, name, created)


def wait_known(cluster: Cluster, name: str, partitions: int) -> None:
    """Until every broker that can be asked knows the leaders of a topic."""
    deadline = time.monotonic() + _KNOWN_SECONDS
    for number in cluster.spec.broker_ids():
        broker = cluster.supervisor.broker(number)
        while number in cluster.pids and number not in cluster.supervisor.paused:
            answer = metadata((broker.host, broker.port), [name])
            parts = answer.topics[0].partitions if answer is not None and answer.topics else []
            if len(parts) >= partitions and all(part.leader_id >= 0 for part in parts):
                break
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"after {_KNOWN_SECONDS:g} s broker {number} knows {len(parts)} of {partitions} "
                    f"partitions of {name}, led by {[part.leader_id for part in parts]}"
                )
            time.sleep(_POLL_SECONDS)
