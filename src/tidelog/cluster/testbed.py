"""How faults are done to a cluster of processes.

Everything is done from outside; the brokers are exactly those that ship. `docs/design/faults.md` says what
each fault is made of, and what it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.errors import ClusterError
from tidelog.faults.places import KEEPER, Node
from tidelog.faults.testbed import FaultFailed, Pairs
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest

NETWORK_KINDS: Final = frozenset(("cut", "delay", "hold", "zone", "power", "keeper"))
"""Kinds that need a network in which links can be cut."""
_ADMIN_SECONDS: Final = 5.0
_IN_SYNC_SECONDS: Final = 6.0
_POLL_SECONDS: Final = 0.1
_NEXT_MEMBER_SECONDS: Final = 0.5
"""So long it takes a broker whose member of the keeper is gone to find another."""


class ClusterTestbed:
    """Signals, restarts, cuts and elections in a `Cluster`."""

    def __init__(self, cluster: Cluster, client_zones: dict[str, str]) -> None:
        """`client_zones`: where the clients live that are cut off together with their zone."""
        self._cluster = cluster
        self._client_zones = client_zones

    def kill(self, broker: int) -> None:
        _do(self._cluster.kill, broker)

    def lose_power(self, broker: int) -> None:
        """Not while a partition has fewer replicas in sync than it should: then this broker may hold the only
        copy, which nobody has made durable, and Kafka's rules lose it as well (KIP-966)."""
        deadline = time.monotonic() + _IN_SYNC_SECONDS
        while not self._all_in_sync():
            if time.monotonic() > deadline:
                raise FaultFailed("power stays on: not all replicas are in sync (KIP-966)")
            time.sleep(_POLL_SECONDS)
        _do(self._cluster.lose_power, broker)

    def _all_in_sync(self) -> bool:
        """Every broker runs and says so of every partition. One alone may be behind the times: one that has
        just started knows of no partition at all."""
        for server in self._cluster.bootstrap_servers.split(","):
            try:
                with Client.to(server, _ADMIN_SECONDS) as client:
                    topics = client.metadata(None).topics
            except ClientError:
                return False
            parts = [part for topic in topics for part in topic.partitions]
            if not parts or any(set(part.isr_nodes) != set(part.replica_nodes) for part in parts):
                return False
        return True

    def stop(self, broker: int) -> None:
        _do(self._cluster.stop_broker, broker)

    def start(self, broker: int) -> None:
        _do(self._cluster.start_broker, broker)

    def pause(self, broker: int) -> None:
        _do(self._cluster.pause, broker)

    def resume(self, broker: int) -> None:
        _do(self._cluster.resume, broker)

    def cut(self, pairs: Pairs) -> None:
        _do(self._cluster.network.cut, _links(pairs))

    def mend(self, pairs: Pairs) -> None:
        _do(self._cluster.network.mend, _links(pairs))

    def delay(self, pairs: Pairs, ms: int) -> None:
        _do(self._cluster.network.delay, _links(pairs), ms)

    def hold(self, pairs: Pairs) -> None:
        _do(self._cluster.network.hold, _links(pairs))

    def release(self, pairs: Pairs) -> None:
        _do(self._cluster.network.release, _links(pairs))

    def fill_disk(self, broker: int) -> None:
        _do(self._cluster.fill_disk, broker)

    def free_disk(self, broker: int) -> None:
        _do(self._cluster.free_disk, broker)

    def slow_disk(self, broker: int, ms: int) -> None:
        _do(self._cluster.slow_disk, broker, ms)

    def set_clock(self, broker: int, offset_ms: int) -> None:
        _do(self._cluster.set_clock, broker, offset_ms)

    def isolate(self, zone: str) -> None:
        _do(self._cluster.network.cut, self._border(zone))

    def rejoin(self, zone: str) -> None:
        _do(self._cluster.network.mend, self._border(zone))

    def lose_keeper_member(self, member: int) -> None:
        """Brokers that were connected to it, in turn, are without a keeper until they have found another."""
        theirs = [broker for broker in self._cluster.spec.broker_ids() if (broker - 1) % 3 + 1 == member]
        links: list[tuple[Node, Node]] = [pair for b in theirs for pair in ((b, KEEPER), (KEEPER, b))]
        _do(self._cluster.network.cut, links)
        time.sleep(_NEXT_MEMBER_SECONDS)
        _do(self._cluster.network.mend, links)

    def stop_keeper(self) -> None:
        _do(self._cluster.stop_keeper)

    def start_keeper(self) -> None:
        _do(self._cluster.start_keeper)

    def elect_preferred(self) -> None:
        try:
            with Client.to(self._cluster.bootstrap_servers, _ADMIN_SECONDS) as first:
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

    def heal(self) -> list[str]:
        return self._cluster.heal()

    def _border(self, zone: str) -> list[tuple[Node, Node]]:
        """All links across the border of a zone. The keeper's majority is always on the other side."""
        spec = self._cluster.spec
        zones: dict[Node, str] = {broker: spec.zone_of(broker) for broker in spec.broker_ids()}
        zones.update((client, where) for client, where in self._client_zones.items())
        inside = [node for node, where in zones.items() if where == zone]
        outside: list[Node] = [node for node, where in zones.items() if where != zone]
        return [pair for a in inside for b in (*outside, KEEPER) for pair in ((a, b), (b, a)) if _talk(a, b)]


def _talk(a: Node, b: Node) -> bool:
    """Clients speak to brokers only."""
    return isinstance(a, int) or isinstance(b, int)


def _links(pairs: Pairs) -> list[tuple[Node, Node]]:
    return [(_node(a), _node(b)) for a, b in pairs]


def _node(name: str) -> Node:
    return int(name) if name.isdigit() else name


def _do(action: Callable[..., None], *arguments: object) -> None:
    try:
        action(*arguments)
    except ClusterError as error:
        raise FaultFailed(str(error)) from None
