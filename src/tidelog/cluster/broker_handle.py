"""A broker of a running cluster, to do things to: `cluster.leader_of("orders").kill()`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.cluster.active_fault import ActiveFault
from tidelog.cluster.directory import BrokerStatus
from tidelog.cluster.errors import ClusterError

if TYPE_CHECKING:
    from tidelog.cluster.cluster import Cluster


class BrokerHandle(int):
    """The id of a broker, which is a number, with the things that can be done to it."""

    _cluster: Cluster

    def __new__(cls, cluster: Cluster, number: int) -> BrokerHandle:
        made = super().__new__(cls, number)
        made._cluster = cluster
        return made

    @property
    def id(self) -> int:
        return int(self)

    @property
    def status(self) -> BrokerStatus:
        """Where it is, its process, its files."""
        return next(each for each in self._cluster.status.brokers if each.id == self)

    @property
    def address(self) -> str:
        return self.status.address

    @property
    def running(self) -> bool:
        """Whether its process runs; a paused one does."""
        return self in self._cluster.pids

    def kill(self) -> ActiveFault:
        """Its process dies, as by `kill -9`."""
        return self._cluster.kill(self)

    def power_loss(self) -> ActiveFault:
        """Its machine loses power: what it had not synced is gone."""
        return self._cluster.power_loss(self)

    def pause(self) -> ActiveFault:
        """It does nothing until it is healed, as in a long garbage collection."""
        return self._cluster.pause(self)

    def stop(self) -> ActiveFault:
        """It shuts down in order."""
        return self._cluster.stop_broker(self)

    def isolate(self) -> ActiveFault:
        """It is cut off from the other brokers and the keeper."""
        return self._cluster.isolate(self)

    def disk_full(self) -> ActiveFault:
        return self._cluster.disk_full(self)

    def slow_fsync(self, ms: int) -> ActiveFault:
        return self._cluster.slow_fsync(self, ms)

    def wrong_clock(self, ms: int) -> ActiveFault:
        return self._cluster.wrong_clock(self, ms)

    def start(self) -> None:
        """Start it again where it was."""
        self._cluster.start_broker(self)

    def resume(self) -> None:
        self._cluster.resume(self)


def broker_id(given: object) -> int:
    """The number of a broker, of what a program gives. Raises `ClusterError`."""
    try:
        return int(given)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        raise ClusterError(f"broker {given!r}: give its number, such as 1") from None


def broker_ids(what: str, given: Iterable[object]) -> list[int]:
    """The numbers of brokers, of which there must be one. Raises `ClusterError`."""
    if not (found := [broker_id(each) for each in given]):
        raise ClusterError(f"{what}: name a broker, such as {what}(1)")
    return found


def milliseconds(given: object) -> int:
    """A duration. Raises `ClusterError`."""
    if isinstance(given, int) and given >= 0:
        return int(given)
    raise ClusterError(f"{given!r}: give milliseconds as a number, such as 300")
