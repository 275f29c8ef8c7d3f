"""A network of relays between processes on one machine: needs no rights to cut, slow down and hold links."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.cluster.network.networks import Address, Loopback, Pair
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.cluster.spec import ClusterSpec
from tidelog.faults.places import KEEPER, Channel, Node

_FETCH: Final = "fetch"


class RelayNetwork(Loopback):
    def __init__(self, spec: ClusterSpec) -> None:
        super().__init__(spec)
        self._board = Switchboard()
        self._delayed: dict[Pair, None] = {}
        self._held: dict[Pair, None] = {}
        for broker, zone in spec.zones_of_brokers().items():
            self._board.add(broker, zone)
        self._board.add(KEEPER, "")

    def place(self, node: Node, at: Address) -> None:
        self._board.place(node, *at)

    def route(self, source: Node, target: Node) -> Address | None:
        return self._board.route(source, target)

    def add_client(self, name: str, zone: str) -> None:
        self._board.add(name, zone)

    def cut(self, pairs: Iterable[Pair]) -> None:
        self._board.cut(pairs)

    def mend(self, pairs: Iterable[Pair]) -> None:
        self._board.heal(pairs)

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        links = list(pairs)
        self._board.delay(links, ms)
        for link in links:
            if ms:
                self._delayed[link] = None
            else:
                self._delayed.pop(link, None)

    def hold(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self._board.hold(Channel(_FETCH, source, target))
            self._held[source, target] = None

    def release(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self._board.release(Channel(_FETCH, source, target))
            self._held.pop((source, target), None)

    def restore(self) -> None:
        self._board.heal()
        self.delay(tuple(self._delayed), 0)
        self.release(tuple(self._held))

    def silence(self, broker: int) -> None:
        self._board.freeze(broker)

    def unsilence(self, broker: int) -> None:
        self._board.thaw(broker)

    def close(self) -> None:
        self._board.close()
        super().close()
