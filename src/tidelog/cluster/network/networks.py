"""The ways in which the processes of a cluster can be joined, behind one interface.

* `DirectNetwork`: over loopback, with nothing in between. Costs nothing, and nothing can be cut.
* `RelayNetwork`: everything runs through a `Switchboard`. Needs no rights; whole messages are lost.
* `NamespaceNetwork`: every broker, the keeper and the clients of every zone in a network namespace of their
  own (`namespaces`). Needs root; the kernel loses packets, and connections suffer as between machines.

Nodes are broker ids, ``keeper`` and names of clients, as everywhere in a trial. With `NamespaceNetwork` a
client is cut off with its zone only: it shares a machine with the others there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.network.namespaces import HOST as TRIAL
from tidelog.cluster.network.namespaces import NamespaceError, Namespaces
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.faults.places import KEEPER, Channel, Node

LOOPBACK: Final = "127.0.0.1"
FETCH: Final = "fetch"
STRAIGHT: Final = "straight"
RELAYS: Final = "relays"
NETNS: Final = "netns"
_BROKER_PORT: Final = 9092
_KEEPER_PORT: Final = 2180

Address = tuple[str, int]
Pair = tuple[Node, Node]


class ClusterNetwork(Protocol):
    def listen(self, broker: int) -> Address:
        """Where a broker is to listen, however often it is started."""
        ...

    def place(self, node: Node, at: Address) -> None:
        """It serves there now."""
        ...

    def route(self, source: Node, target: Node) -> Address | None:
        """Where `source` finds `target`, if not where that listens."""
        ...

    def add_client(self, name: str, zone: str) -> None: ...
    def command_in(self, node: Node) -> list[str]:
        """Words to put before a command for it to run where a node stands."""
        ...

    def cut(self, pairs: Iterable[Pair]) -> None: ...
    def mend(self, pairs: Iterable[Pair] | None = None) -> None: ...
    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        """What is sent from a to b takes so much longer, for each pair (a, b); 0: no longer."""
        ...

    def hold(self, pairs: Iterable[Pair]) -> None:
        """Fetches from a to b wait, for each pair (a, b)."""
        ...

    def release(self, pairs: Iterable[Pair]) -> None: ...
    def silence(self, broker: int) -> None:
        """Nobody but us hears a broker any more."""
        ...

    def unsilence(self, broker: int) -> None: ...
    def close(self) -> None: ...


def make_network(kind: str, zones: Mapping[int, str]) -> ClusterNetwork:
    """Raises `ClusterError` if there is no such network to be had here."""
    if kind == NETNS:
        try:
            return NamespaceNetwork(zones)
        except NamespaceError as error:
            raise ClusterError(str(error)) from None
    return RelayNetwork(zones) if kind == RELAYS else DirectNetwork()


class _Loopback:
    def __init__(self) -> None:
        self._reserved: dict[int, socket.socket] = {}

    def listen(self, broker: int) -> Address:
        """A port that stays this broker's while it is away. While only bound, it can be bound once more, but
        nobody is given it by chance."""
        if broker not in self._reserved:
            reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind((LOOPBACK, 0))
            self._reserved[broker] = reserved
        return LOOPBACK, int(self._reserved[broker].getsockname()[1])

    def command_in(self, node: Node) -> list[str]:
        return []

    def close(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()


class DirectNetwork(_Loopback):
    def place(self, node: Node, at: Address) -> None:
        pass

    def route(self, source: Node, target: Node) -> Address | None:
        return None

    def add_client(self, name: str, zone: str) -> None:
        pass

    def cut(self, pairs: Iterable[Pair]) -> None:
        raise ClusterError("links cannot be cut: the traffic of this trial goes straight")

    def mend(self, pairs: Iterable[Pair] | None = None) -> None:
        pass

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        raise ClusterError("links cannot be slow: the traffic of this trial goes straight")

    def hold(self, pairs: Iterable[Pair]) -> None:
        raise ClusterError("fetches cannot be held: the traffic of this trial goes straight")

    def release(self, pairs: Iterable[Pair]) -> None:
        pass

    def silence(self, broker: int) -> None:
        raise ClusterError("power cannot be cut: the traffic of this trial goes straight")

    def unsilence(self, broker: int) -> None:
        pass


class RelayNetwork(_Loopback):
    def __init__(self, zones: Mapping[int, str]) -> None:
        super().__init__()
        self._board = Switchboard()
        for broker, zone in zones.items():
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

    def mend(self, pairs: Iterable[Pair] | None = None) -> None:
        self._board.heal(pairs)

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        self._board.delay(pairs, ms)

    def hold(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self._board.hold(Channel(FETCH, source, target))

    def release(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self._board.release(Channel(FETCH, source, target))

    def silence(self, broker: int) -> None:
        self._board.freeze(broker)

    def unsilence(self, broker: int) -> None:
        self._board.thaw(broker)

    def close(self) -> None:
        self._board.close()
        super().close()


class NamespaceNetwork:
    def __init__(self, zones: Mapping[int, str]) -> None:
        """Raises `NamespaceError`."""
        self._machine_of: dict[Node, str] = {broker: f"broker-{broker}" for broker in zones}
        self._machine_of[KEEPER] = KEEPER
        clients = [_clients_in(zone) for zone in dict.fromkeys(zones.values())]
        self._everyone = [*self._machine_of.values(), *clients]
        self._spaces = Namespaces(self._everyone, host=True)

    def listen(self, broker: int) -> Address:
        return self._spaces.address(self._machine_of[broker]), _BROKER_PORT

    def place(self, node: Node, at: Address) -> None:
        pass

    def route(self, source: Node, target: Node) -> Address | None:
        if target == KEEPER:
            return self._spaces.address(KEEPER), _KEEPER_PORT
        return None

    def add_client(self, name: str, zone: str) -> None:
        self._machine_of[name] = _clients_in(zone)

    def command_in(self, node: Node) -> list[str]:
        return self._spaces.command(self._machine_of[node], [])

    def cut(self, pairs: Iterable[Pair]) -> None:
        self._do(self._spaces.cut, pairs)

    def mend(self, pairs: Iterable[Pair] | None = None) -> None:
        if pairs is None:
            self._spaces.heal()
        else:
            self._do(self._spaces.heal, pairs)

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        """All that these senders send, whoever it is for: the queue does not tell receivers apart."""
        try:
            self._spaces.delay({self._machine_of[a] for a, _ in pairs}, ms)
        except NamespaceError as error:
            raise ClusterError(str(error)) from None

    def hold(self, pairs: Iterable[Pair]) -> None:
        raise ClusterError("fetches cannot be held: between namespaces there are only packets")

    def release(self, pairs: Iterable[Pair]) -> None:
        pass

    def silence(self, broker: int) -> None:
        self._spaces.cut(self._around(broker))

    def unsilence(self, broker: int) -> None:
        self._spaces.heal(self._around(broker))

    def _around(self, broker: int) -> list[tuple[str, str]]:
        own = self._machine_of[broker]
        others = [machine for machine in self._everyone if machine not in (own, TRIAL)]
        return [pair for other in others for pair in ((own, other), (other, own))]

    def _do(self, action: object, pairs: Iterable[Pair]) -> None:
        assert callable(action)
        action((self._machine_of[a], self._machine_of[b]) for a, b in pairs)

    def close(self) -> None:
        self._spaces.close()


def _clients_in(zone: str) -> str:
    return f"clients-{zone}"
