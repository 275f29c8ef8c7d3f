"""A network of namespaces (`namespaces`): every broker and the keeper in one of its own.

The clients of a zone share a machine, and are cut off together with it only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.network.namespaces import HOST as TRIAL
from tidelog.cluster.network.namespaces import NamespaceError, Namespaces
from tidelog.cluster.network.networks import Address, Pair
from tidelog.faults.places import KEEPER, Node

_BROKER_PORT: Final = 9092
_KEEPER_PORT: Final = 2180


class NamespaceNetwork:
    def __init__(self, zones: Mapping[int, str]) -> None:
        """Raises `ClusterError`."""
        self._machine_of: dict[Node, str] = {broker: f"broker-{broker}" for broker in zones}
        self._machine_of[KEEPER] = KEEPER
        clients = [_clients_in(zone) for zone in dict.fromkeys(zones.values())]
        self._everyone = [*self._machine_of.values(), *clients]
        self._delayed: set[str] = set()
        with _as_cluster_error():
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

    def mend(self, pairs: Iterable[Pair]) -> None:
        self._do(self._spaces.heal, pairs)

    def delay(self, pairs: Iterable[Pair], ms: int) -> None:
        """All that these senders send, to any receiver: the queue does not tell receivers apart."""
        senders = {self._machine_of[a] for a, _ in pairs}
        with _as_cluster_error():
            self._spaces.delay(senders, ms)
        self._delayed = self._delayed | senders if ms else self._delayed - senders

    def hold(self, pairs: Iterable[Pair]) -> None:
        raise ClusterError("fetches cannot be held: between namespaces there are only packets")

    def release(self, pairs: Iterable[Pair]) -> None:
        pass

    def reset(self, pairs: Iterable[Pair]) -> None:
        raise ClusterError("connections cannot be broken: between namespaces there are only packets")

    def restore(self) -> None:
        with _as_cluster_error():
            self._spaces.heal()
            if self._delayed:
                self._spaces.delay(self._delayed, 0)
        self._delayed = set()

    def silence(self, broker: int) -> None:
        self._spaces.cut(self._around(broker))

    def unsilence(self, broker: int) -> None:
        self._spaces.heal(self._around(broker))

    def _around(self, broker: int) -> list[tuple[str, str]]:
        own = self._machine_of[broker]
        others = [machine for machine in self._everyone if machine not in (own, TRIAL)]
        return [pair for other in others for pair in ((own, other), (other, own))]

    def _do(self, action: Callable[[Iterable[tuple[str, str]]], None], pairs: Iterable[Pair]) -> None:
        with _as_cluster_error():
            action((self._machine_of[a], self._machine_of[b]) for a, b in pairs)

    def close(self) -> None:
        self._spaces.close()


@contextmanager
def _as_cluster_error() -> Iterator[None]:
    try:
        yield
    except NamespaceError as error:
        raise ClusterError(str(error)) from None


def _clients_in(zone: str) -> str:
    return f"clients-{zone}"
