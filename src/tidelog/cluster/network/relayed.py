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
        self.board = Switchboard()
        """For single messages: which wait, which pass."""
        for broker, zone in spec.zones_of_brokers().items():
            self.board.add(broker, zone)
        self.board.add(KEEPER, "")

    def place(self, node: Node, at: Address) -> None:
        self.board.place(node, *at)

    def route(self, source: Node, target: Node) -> Address | None:
        return self.board.route(source, target)

    def add_client(self, name: str, zone: str) -> None:
        self.board.add(name, zone)

    def cut(self, pairs: Iterable[Pair]) -> None:
        self.board.cut(pairs)

    def mend(self, pairs: Iterable[Pair]) -> None:
        self.board.heal(pairs)

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        self.board.delay(pairs, ms)

    def hold(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self.board.hold(Channel(_FETCH, source, target))

    def release(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self.board.release(Channel(_FETCH, source, target))

    def reset(self, pairs: Iterable[Pair]) -> None:
        for a, b in pairs:
            self.board.reset(a, b)

    def restore(self) -> None:
        self.board.restore()

    def silence(self, broker: int) -> None:
        self.board.freeze(broker)

    def unsilence(self, broker: int) -> None:
        self.board.thaw(broker)

    def close(self) -> None:
        self.board.close()
        super().close()
