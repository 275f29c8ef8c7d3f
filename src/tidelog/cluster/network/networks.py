"""The ways in which the processes of a cluster can be joined, behind one interface.

* `DirectNetwork`: over loopback, with nothing in between. Costs nothing, and nothing can be cut.
* `RelayNetwork` (`relayed`): everything runs through a `Switchboard`. Needs no rights; whole messages are
  lost.
* `NamespaceNetwork` (`namespaced`): every broker, the keeper and the clients of every zone in a network
  namespace of their own. Needs root; the kernel loses packets, and connections suffer as between machines.

Nodes are broker ids, ``keeper`` and names of clients, as everywhere in a trial. Every method may be called
from any thread and returns when its effect is there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final, Protocol

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.spec import DIRECT, NETNS, RELAYS, ClusterSpec
from tidelog.faults.places import Node

LOOPBACK: Final = "127.0.0.1"

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
        """Words to put before a command for it to run where a node is."""
        ...

    def cut(self, pairs: Iterable[Pair]) -> None: ...
    def mend(self, pairs: Iterable[Pair]) -> None: ...
    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        """What is sent from a to b takes so much longer, for each pair (a, b); 0: no longer."""
        ...

    def hold(self, pairs: Iterable[Pair]) -> None:
        """Fetches from a to b wait, for each pair (a, b)."""
        ...

    def release(self, pairs: Iterable[Pair]) -> None: ...
    def reset(self, pairs: Iterable[Pair]) -> None:
        """Connections between a and b break, for each pair (a, b); new ones can be made at once."""
        ...

    def restore(self) -> None:
        """No link is cut, slow or held any more."""
        ...

    def silence(self, broker: int) -> None:
        """No other node hears a broker any more."""
        ...

    def unsilence(self, broker: int) -> None: ...
    def close(self) -> None: ...


def make_network(spec: ClusterSpec) -> ClusterNetwork:
    """Raises `ClusterError` if this machine has no such network. The modules of networks in which
    something can be cut are loaded when one is wanted."""
    if spec.network == NETNS:
        from tidelog.cluster.network.namespaced import NamespaceNetwork

        return NamespaceNetwork(spec.zones_of_brokers())
    if spec.network == RELAYS:
        from tidelog.cluster.network.relayed import RelayNetwork

        return RelayNetwork(spec)
    return DirectNetwork(spec)


def reserve_port(port: int = 0) -> socket.socket:
    """A socket that is bound but never listens: it keeps the port for a process of ours while that is away.
    Two sockets may have one port with this option, as long as only one of them listens."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((LOOPBACK, port))
    return reserved


class Loopback:
    """Where brokers listen if they are all on this machine."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._reserved: dict[int, socket.socket] = {}

    def listen(self, broker: int) -> Address:
        if broker not in self._reserved:
            self._reserved[broker] = reserve_port(self._spec.port_of(broker))
        return LOOPBACK, int(self._reserved[broker].getsockname()[1])

    def command_in(self, node: Node) -> list[str]:
        return []

    def close(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()


class DirectNetwork(Loopback):
    def place(self, node: Node, at: Address) -> None:
        pass

    def route(self, source: Node, target: Node) -> Address | None:
        return None

    def add_client(self, name: str, zone: str) -> None:
        pass

    def cut(self, pairs: Iterable[Pair]) -> None:
        raise _unavailable("cut links")

    def mend(self, pairs: Iterable[Pair]) -> None:
        pass

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        raise _unavailable("slow links")

    def hold(self, pairs: Iterable[Pair]) -> None:
        raise _unavailable("held fetches")

    def release(self, pairs: Iterable[Pair]) -> None:
        pass

    def reset(self, pairs: Iterable[Pair]) -> None:
        raise _unavailable("broken connections")

    def restore(self) -> None:
        pass

    def silence(self, broker: int) -> None:
        raise _unavailable("power cuts")

    def unsilence(self, broker: int) -> None:
        pass


def _unavailable(what: str) -> ClusterError:
    return ClusterError(f"{what} are not available with network={DIRECT}: use network={RELAYS}")
