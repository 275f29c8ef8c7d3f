"""What a nemesis can do to a cluster: an interface, and how it is done to an arena.

Everything is done from outside; the brokers are exactly those that ship. `docs/design/faults.md` says what
each fault is made of, and what it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from tidelog.cluster.arena import Arena
from tidelog.cluster.errors import ClusterError
from tidelog.faults.places import KEEPER, Node
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest

Pairs = Iterable[tuple[str, str]]

NETWORK_KINDS: Final = frozenset(("cut", "delay", "hold", "zone", "power", "keeper"))
"""Kinds that need a network in which links can be cut."""
_ADMIN_SECONDS: Final = 5.0
_IN_SYNC_SECONDS: Final = 6.0
_POLL_SECONDS: Final = 0.1
_NEXT_MEMBER_SECONDS: Final = 0.5
"""So long it takes a broker whose member of the keeper is gone to find another."""


class FaultFailed(Exception):
    """It could not be done. The message is one line that says why."""


class Faults(Protocol):
    """Each method returns when its effect is there, or raises `FaultFailed`."""

    def kill(self, broker: int) -> None: ...
    def lose_power(self, broker: int) -> None: ...
    def stop(self, broker: int) -> None: ...
    def start(self, broker: int) -> None: ...
    def pause(self, broker: int) -> None: ...
    def resume(self, broker: int) -> None: ...
    def cut(self, pairs: Pairs) -> None: ...
    def mend(self, pairs: Pairs) -> None: ...
    def delay(self, pairs: Pairs, ms: int) -> None: ...
    def hold(self, pairs: Pairs) -> None:
        """Fetches from a to b wait, for each pair (a, b)."""
        ...

    def release(self, pairs: Pairs) -> None: ...
    def fill_disk(self, broker: int) -> None: ...
    def free_disk(self, broker: int) -> None: ...
    def slow_disk(self, broker: int, ms: int) -> None: ...
    def set_clock(self, broker: int, offset_ms: int) -> None:
        """Restart a broker with a clock that is wrong by so much, or right."""
        ...

    def isolate(self, zone: str) -> None: ...
    def rejoin(self, zone: str) -> None: ...
    def lose_keeper_member(self, member: int) -> None: ...
    def stop_keeper(self) -> None: ...
    def start_keeper(self) -> None: ...
    def elect_preferred(self) -> None: ...

    def heal(self) -> list[str]:
        """Undo everything: all brokers run, all links work. What could not be undone."""
        ...


class ArenaFaults:
    """Signals, restarts, cuts and elections in an `Arena`."""

    def __init__(self, arena: Arena, client_zones: dict[str, str]) -> None:
        """`client_zones`: where the clients live that are cut off together with their zone."""
        self._arena = arena
        self._client_zones = client_zones
        self._paused: set[int] = set()
        self._filled: set[int] = set()
        self._slow: set[int] = set()
        self._wrong_clocks: set[int] = set()
        self._delayed: dict[tuple[str, str], None] = {}
        self._held: dict[tuple[str, str], None] = {}

    def kill(self, broker: int) -> None:
        _do(self._arena.kill, broker)
        for what_ends_with_its_process in (self._paused, self._filled, self._slow):
            what_ends_with_its_process.discard(broker)

    def lose_power(self, broker: int) -> None:
        """Not while a partition has fewer replicas in sync than it should: then this broker may hold the only
        copy, which nobody has made durable, and Kafka's rules lose it as well (KIP-966)."""
        deadline = time.monotonic() + _IN_SYNC_SECONDS
        while not self._all_in_sync():
            if time.monotonic() > deadline:
                raise FaultFailed("power stays on: not all replicas are in sync (KIP-966)")
            time.sleep(_POLL_SECONDS)
        _do(self._arena.lose_power, broker)

    def _all_in_sync(self) -> bool:
        """Every broker runs and says so of every partition. One alone may be behind the times: one that has
        just started knows of no partition at all."""
        for server in self._arena.bootstrap_servers.split(","):
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
        _do(self._arena.stop_broker, broker)

    def start(self, broker: int) -> None:
        _do(self._arena.start_broker, broker)

    def pause(self, broker: int) -> None:
        _do(self._arena.pause, broker)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        _do(self._arena.resume, broker)
        self._paused.discard(broker)

    def cut(self, pairs: Pairs) -> None:
        _do(self._arena.cut, [(_node(a), _node(b)) for a, b in pairs])

    def mend(self, pairs: Pairs) -> None:
        self._arena.mend([(_node(a), _node(b)) for a, b in pairs])

    def delay(self, pairs: Pairs, ms: int) -> None:
        links = list(pairs)
        _do(self._arena.delay, [(_node(a), _node(b)) for a, b in links], ms)
        for link in links:
            if ms:
                self._delayed[link] = None
            else:
                self._delayed.pop(link, None)

    def hold(self, pairs: Pairs) -> None:
        links = list(pairs)
        _do(self._arena.hold, [(_node(a), _node(b)) for a, b in links])
        self._held.update(dict.fromkeys(links))

    def release(self, pairs: Pairs) -> None:
        links = list(pairs)
        _do(self._arena.release, [(_node(a), _node(b)) for a, b in links])
        for link in links:
            self._held.pop(link, None)

    def fill_disk(self, broker: int) -> None:
        _do(self._arena.fill_disk, broker)
        self._filled.add(broker)

    def free_disk(self, broker: int) -> None:
        _do(self._arena.free_disk, broker)
        self._filled.discard(broker)

    def slow_disk(self, broker: int, ms: int) -> None:
        _do(self._arena.slow_disk, broker, ms)
        if ms:
            self._slow.add(broker)
        else:
            self._slow.discard(broker)

    def set_clock(self, broker: int, offset_ms: int) -> None:
        self._arena.set_clock(broker, offset_ms)
        if offset_ms:
            self._wrong_clocks.add(broker)
        else:
            self._wrong_clocks.discard(broker)
        if broker in self._arena.running:
            _do(self._arena.stop_broker, broker)
        _do(self._arena.start_broker, broker)

    def isolate(self, zone: str) -> None:
        _do(self._arena.cut, self._border(zone))

    def rejoin(self, zone: str) -> None:
        self._arena.mend(self._border(zone))

    def lose_keeper_member(self, member: int) -> None:
        """Brokers that were connected to it, in turn, are without a keeper until they have found another."""
        plan = self._arena.plan
        theirs = [broker for broker in plan.broker_ids() if (broker - 1) % 3 + 1 == member]
        links: list[tuple[Node, Node]] = [pair for b in theirs for pair in ((b, KEEPER), (KEEPER, b))]
        _do(self._arena.cut, links)
        time.sleep(_NEXT_MEMBER_SECONDS)
        self._arena.mend(links)

    def stop_keeper(self) -> None:
        _do(self._arena.stop_keeper)

    def start_keeper(self) -> None:
        _do(self._arena.start_keeper)

    def elect_preferred(self) -> None:
        try:
            with Client.to(self._arena.bootstrap_servers, _ADMIN_SECONDS) as first:
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
        self._arena.mend()
        steps: list[Callable[[], None]] = [self.start_keeper]
        if self._delayed:
            steps.append(partial(self.delay, tuple(self._delayed), 0))
        if self._held:
            steps.append(partial(self.release, tuple(self._held)))
        steps += [partial(self.resume, broker) for broker in sorted(self._paused)]
        steps += [partial(self.free_disk, broker) for broker in sorted(self._filled)]
        steps += [partial(self.slow_disk, broker, 0) for broker in sorted(self._slow)]
        steps += [partial(self.set_clock, broker, 0) for broker in sorted(self._wrong_clocks)]
        dead = [broker for broker in self._arena.plan.broker_ids() if broker not in self._arena.running]
        steps += [partial(self.start, broker) for broker in dead]
        trouble = []
        for step in steps:
            try:
                step()
            except FaultFailed as error:
                trouble.append(str(error))
        return trouble

    def _border(self, zone: str) -> list[tuple[Node, Node]]:
        """All links across the border of a zone. The keeper's majority is always on the other side."""
        plan = self._arena.plan
        zones: dict[Node, str] = {broker: plan.zone_of(broker) for broker in plan.broker_ids()}
        zones.update((client, where) for client, where in self._client_zones.items())
        inside = [node for node, where in zones.items() if where == zone]
        outside: list[Node] = [node for node, where in zones.items() if where != zone]
        return [pair for a in inside for b in (*outside, KEEPER) for pair in ((a, b), (b, a)) if _talk(a, b)]


def _talk(a: Node, b: Node) -> bool:
    """Clients speak to brokers only."""
    return isinstance(a, int) or isinstance(b, int)


def _node(name: str) -> Node:
    return int(name) if name.isdigit() else name


def _do(action: Callable[..., None], *arguments: object) -> None:
    try:
        action(*arguments)
    except ClusterError as error:
        raise FaultFailed(str(error)) from None
