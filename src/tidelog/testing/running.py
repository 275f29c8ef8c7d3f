"""The cluster of a test session: started when the first test asks for it, and what is kept of it.

It records what its brokers do (`events/`), so that a failed test can say who led when; and what they log.
"""

from __future__ import annotations

import time
from pathlib import Path

from tidelog.cluster.broker_process import BrokerProcess, exit_summary
from tidelog.cluster.brokers import LogFiles
from tidelog.cluster.cluster import Cluster
from tidelog.testing.existing import ExistingCluster
from tidelog.testing.options import ClusterChoice

AnyCluster = Cluster | ExistingCluster
EVENTS = "events"


def servers_of(cluster: AnyCluster) -> str:
    """Of the brokers that can be asked now."""
    return cluster.supervisor.reachable_servers if isinstance(cluster, Cluster) else cluster.bootstrap_servers


class RunningCluster:
    """A cluster with the folder that it writes to; or one that runs already."""

    def __init__(self, choice: ClusterChoice, folder: Path) -> None:
        """Raises `Refusal` if it cannot be started."""
        self.choice = choice
        self.folder = folder
        self.deaths: list[tuple[int, str]] = []
        """Brokers that ended by themselves: when, in microseconds since 1970, and how."""
        self._logs: LogFiles | None = None
        self.cluster: AnyCluster
        if choice.servers:
            self.cluster = ExistingCluster(choice.servers)
            return
        given = choice.arguments()
        events = folder / EVENTS
        events.mkdir(parents=True)
        given["settings"] = {"tidelog.evidence.dir": events, **given.get("settings", {})}
        self._logs = LogFiles(folder)
        self.cluster = Cluster(None, folder / "cluster", on_line=self._logs, on_death=self._died, **given)
        self.cluster.start()

    def _died(self, process: BrokerProcess) -> None:
        self.deaths.append((time.time_ns() // 1000, exit_summary(process)))

    def stop(self) -> None:
        if isinstance(self.cluster, ExistingCluster):
            self.cluster.delete_topics()
            return
        self.cluster.stop()
        if self._logs is not None:
            self._logs.close()
