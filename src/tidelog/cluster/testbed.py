"""How faults are done to a cluster of processes.

Everything is done from outside; the brokers are exactly those that ship. `docs/design/faults.md` says what
each fault is made of, and what it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from tidelog.cluster.errors import ClusterError
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.faults.testbed import FaultFailed, Links, Testbed
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest

if TYPE_CHECKING:
    from tidelog.cluster.cluster import Cluster

_ADMIN_SECONDS: Final = 5.0
_IN_SYNC_SECONDS: Final = 6.0
_NEXT_MEMBER_SECONDS: Final = 0.5
"""So long it takes a broker whose member of the keeper is gone to find another."""


class ClusterTestbed(Testbed):
    """Signals, restarts, cuts and elections in a `Cluster`."""

    def __init__(self, cluster: Cluster, client_zones: dict[str, str]) -> None:
        """`client_zones`: where the clients live that are cut off together with their zone."""
        self._cluster = cluster
        self._supervisor = cluster.supervisor
        self._client_zones = client_zones

    def is_up(self, broker: int) -> bool:
        return broker in self._supervisor.pids

    def is_paused(self, broker: int) -> bool:
        return broker in self._supervisor.paused

    def kill(self, broker: int) -> None:
        self._run(self._supervisor.kill(broker))

    def lose_power(self, broker: int) -> None:
        """Not while a partition has fewer replicas in sync than it should: then this broker may hold the only
        copy, which is not durable, and Kafka's rules lose it as well (KIP-966)."""
        try:
            self._cluster.wait_in_sync(timeout_s=_IN_SYNC_SECONDS)
        except ClusterError:
            raise FaultFailed("power stays on: not all replicas are in sync (KIP-966)") from None
        self._run(self._supervisor.lose_power(broker))

    def stop(self, broker: int) -> None:
        self._run(self._supervisor.stop_broker(broker))

    def start(self, broker: int) -> None:
        self._run(self._supervisor.start_broker(broker))

    def pause(self, broker: int) -> None:
        self._run(self._supervisor.pause(broker))

    def resume(self, broker: int) -> None:
        self._run(self._supervisor.resume(broker))

    def border(self, zone: str) -> list[tuple[Node, Node]]:
        """The keeper's majority is always on the other side."""
        spec = self._cluster.spec
        zones: dict[Node, str] = {broker: spec.zone_of(broker) for broker in spec.broker_ids()}
        zones.update((client, where) for client, where in self._client_zones.items())
        inside = [node for node, where in zones.items() if where == zone]
        outside: list[Node] = [node for node, where in zones.items() if where != zone]
        return [pair for a in inside for b in (*outside, KEEPER) for pair in ((a, b), (b, a)) if _talk(a, b)]

    def cut(self, links: Links) -> None:
        _do(self._cluster.network.cut, list(links))

    def mend(self, links: Links | None) -> None:
        _do(self._cluster.network.mend, None if links is None else list(links))

    def delay(self, links: Links, ms: int) -> None:
        _do(self._cluster.network.delay, list(links), ms)

    def hold(self, channels: Iterable[Channel] | None) -> None:
        """Only fetches, of links that are named."""
        _do(self._cluster.network.hold, [(a, b) for _, a, b in channels or ()])

    def release(self, channels: Iterable[Channel] | None) -> None:
        _do(self._cluster.network.release, [(a, b) for _, a, b in channels or ()])

    def fill_disk(self, broker: int) -> None:
        self._run(self._supervisor.fill_disk(broker))

    def free_disk(self, broker: int) -> None:
        self._run(self._supervisor.free_disk(broker))

    def slow_disk(self, broker: int, ms: int) -> None:
        self._run(self._supervisor.slow_disk(broker, ms))

    def set_clock(self, broker: int, offset_ms: int) -> None:
        self._run(self._supervisor.set_clock(broker, offset_ms))

    def keeper_member(self, member: int, *, running: bool) -> None:
        """Brokers that were connected to it, in turn, are without a keeper until they have found another."""
        if running:
            return
        theirs = [broker for broker in self._cluster.spec.broker_ids() if (broker - 1) % 3 + 1 == member]
        links: list[tuple[Node, Node]] = [pair for b in theirs for pair in ((b, KEEPER), (KEEPER, b))]
        _do(self._cluster.network.cut, links)
        time.sleep(_NEXT_MEMBER_SECONDS)
        _do(self._cluster.network.mend, links)

    def keeper(self, *, running: bool) -> None:
        keeper = self._supervisor
        self._run(keeper.start_keeper() if running else keeper.stop_keeper())

    def elect_preferred(self) -> bool:
        try:
            with Client.to(self._supervisor.reachable_servers, _ADMIN_SECONDS) as first:
                answer = first.metadata([])
            at = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            if answer.controller_id not in at:
                raise FaultFailed("there is no controller to ask")
            with Client(*at[answer.controller_id], _ADMIN_SECONDS) as controller:
                # Which partitions have their preferred leader already is not our business.
                controller.ask(
                    Api.ELECT_LEADERS, ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000)
                )
        except ClientError as error:
            raise FaultFailed(str(error)) from None
        return True

    def heal(self) -> list[str]:
        return self._cluster.heal()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        _do(self._cluster.run, work)


def _talk(a: Node, b: Node) -> bool:
    """Clients speak to brokers only."""
    return isinstance(a, int) or isinstance(b, int)


def _do(action: Callable[..., None], *arguments: object) -> None:
    try:
        action(*arguments)
    except ClusterError as error:
        raise FaultFailed(str(error)) from error
