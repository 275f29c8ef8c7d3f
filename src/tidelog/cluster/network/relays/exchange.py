"""All relays of a switchboard and the rules they share. Everything here happens in the loop's thread."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import ParamSpec

from tidelog.cluster.network.relays.addresses import Address, Addresses
from tidelog.cluster.network.relays.lane import Lane, Sort, Tap, Waiting
from tidelog.cluster.network.relays.relay import Relay
from tidelog.cluster.network.relays.relayed_connection import RelayedConnection
from tidelog.cluster.network.relays.rules import Links, Pair
from tidelog.faults.places import Channel, Node

SCRATCH_BYTES = 256 * 1024

P = ParamSpec("P")


class RelayExchange:
    def __init__(self, hang_s: float) -> None:
        self.hang_s = hang_s
        self.links = Links()
        self.places = Addresses(self._place_changed)
        self.tap: Tap | None = None
        self._relays: dict[Pair, Relay] = {}
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._next_sequence = itertools.count(1).__next__
        self._loop = asyncio.get_running_loop()

    def lane(self, pair: Pair, sort: Sort, header_bytes: int, *, whole: bool) -> Lane:
        return Lane(
            pair,
            links=self.links,
            scratch=self._scratch,
            next_sequence=self._next_sequence,
            sort=sort,
            header_bytes=header_bytes,
            whole=whole,
        )

    def route(self, source: Node, target: Node) -> Address:
        relay = self._relays.get((source, target))
        if relay is None:
            relay = self._relays[source, target] = Relay(self, source, target)
        return relay.address

    # ------------------------------------------------------------ rules

    def change(self, rule: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Change a rule of `links`, and let every relay obey it."""
        rule(*args, **kwargs)
        self._rules_changed()

    def set_tap(self, tap: Tap | None) -> None:
        self.tap = tap
        self._rules_changed()

    def _rules_changed(self) -> None:
        for relay in list(self._relays.values()):
            relay.rules_changed()

    def _place_changed(self, node: Node) -> None:
        for relay in list(self._relays.values()):
            if relay.target == node:
                relay.rules_changed()

    # ------------------------------------------------------------ connections and messages

    def reset(self, a: Node, b: Node) -> None:
        for relay in self._between(a, b):
            relay.reset()

    def deliver(self, channel: Channel, count: int) -> bool:
        return all(self._deliver_one(channel) for _ in range(count))

    def _deliver_one(self, channel: Channel) -> bool:
        found = self._oldest(channel)
        if found is None:
            return False
        message, _, lane = found
        lane.deliver(message)
        return True

    def drop(self, channel: Channel) -> bool:
        """A stream cannot go on without one of its messages: the connection is reset."""
        found = self._oldest(channel)
        if found is None:
            return False
        message, connection, lane = found
        lane.drop(message)
        connection.reset()
        return True

    def _oldest(self, channel: Channel) -> tuple[Waiting, RelayedConnection, Lane] | None:
        relays = self._between(channel.source, channel.target)
        heads = [head for relay in relays for head in relay.heads(channel)]
        return min(heads, key=lambda head: head[0].sequence, default=None)

    def in_flight(self, channel: Channel) -> int:
        pair = (channel.source, channel.target)
        relays = self._between(*pair)
        return sum(lane.in_flight(channel) for relay in relays for _, lane in relay.lanes(pair))

    def _between(self, a: Node, b: Node) -> list[Relay]:
        return [self._relays[pair] for pair in ((a, b), (b, a)) if pair in self._relays]

    # ------------------------------------------------------------ what can be seen

    def quiet(self, node: Node, ms: float) -> bool:
        moved = (flow.moved_at for pair, flow in self.links.flows.items() if node in pair)
        return self._loop.time() - max(moved, default=float("-inf")) >= ms / 1000

    def connections(self) -> int:
        return sum(len(relay.connections) for relay in self._relays.values())

    async def close(self) -> None:
        self.places.close()
        for relay in self._relays.values():
            relay.close()
        await asyncio.gather(*(relay.closed() for relay in self._relays.values()))
