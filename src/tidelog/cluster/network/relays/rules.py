"""The rules of a trial's network: which directed links are cut, slow or held.

Plain state, no sockets: relays ask it what to do with a message, the switchboard changes it. The words are
the lab's (``faults/places.py``), so that one scenario means the same on both stages. A pair is directed:
``(0, 1)`` is what travels from broker 0 to broker 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.faults.places import KEEPER, Channel, Node

Pair = tuple[Node, Node]


@dataclass(slots=True)
class Flow:
    """What went one way between two nodes, over all their connections."""

    messages: int = 0
    """Passed on. What the keeper and its clients say to stay in touch is left out."""
    bytes: int = 0
    """Received from the source, whatever became of them."""
    lost_bytes: int = 0
    """Received while the link was cut, or after the connection had lost something."""
    dropped: int = 0
    """Messages taken out of flight: by a cut, a reset or ``drop``."""
    connections: int = 0
    """That the source of this direction opened."""
    moved_at: float = float("-inf")
    """When something last moved, by the loop's clock."""


class Links:
    def __init__(self) -> None:
        self.flows: dict[Pair, Flow] = {}
        self.zones: dict[Node, str] = {}
        self._cut: dict[Pair, None] = {}
        self._delays: dict[Pair, float] = {}
        self._held: set[Channel] = set()
        self._frozen: set[Node] = set()
        self._hold_all = False

    def flow(self, source: Node, target: Node) -> Flow:
        return self.flows.setdefault((source, target), Flow())

    # ------------------------------------------------------------ what a relay asks

    def is_cut(self, pair: Pair) -> bool:
        return pair in self._cut

    def linked(self, a: Node, b: Node) -> bool:
        """Both directions work: a connection can be made."""
        return (a, b) not in self._cut and (b, a) not in self._cut

    def delay_s(self, pair: Pair) -> float:
        return self._delays.get(pair, 0.0)

    def holds(self, channel: Channel) -> bool:
        return (
            self._hold_all
            or channel in self._held
            or channel.source in self._frozen
            or channel.target in self._frozen
        )

    def is_plain(self, pair: Pair) -> bool:
        """No rule looks at single messages of this direction: bytes may stream through."""
        if self._hold_all or pair in self._delays or self._frozen.intersection(pair):
            return False
        return not any((channel.source, channel.target) == pair for channel in self._held)

    # ------------------------------------------------------------ what a trial changes

    def add(self, node: Node, zone: str) -> None:
        """A client that appears in a zone which is already cut off shares the fate of the brokers there."""
        self.zones[node] = zone
        if not is_client(node):
            return
        for a, b in list(self._cut):
            if isinstance(a, int) and isinstance(b, int):
                if self.zones.get(a) == zone:
                    self._cut[node, b] = None
                if self.zones.get(b) == zone:
                    self._cut[a, node] = None

    def cut(self, pairs: Iterable[Pair]) -> None:
        self._cut.update(dict.fromkeys(pairs))

    def heal(self, pairs: Iterable[Pair] | None) -> None:
        """None: all of them."""
        for pair in list(self._cut if pairs is None else pairs):
            self._cut.pop(pair, None)

    def delay(self, pairs: Iterable[Pair], ms: float) -> None:
        for pair in pairs:
            if ms > 0:
                self._delays[pair] = ms / 1000
            else:
                self._delays.pop(pair, None)

    def hold(self, channel: Channel | None) -> None:
        if channel is None:
            self._hold_all = True
        else:
            self._held.add(channel)

    def release(self, channel: Channel | None) -> None:
        if channel is not None:
            self._held.discard(channel)
            return
        self._hold_all = False
        self._held.clear()
        self._frozen.clear()

    def restore(self) -> None:
        self._cut.clear()
        self._delays.clear()
        self._held.clear()
        self._hold_all = False

    def freeze(self, node: Node) -> None:
        self._frozen.add(node)

    def thaw(self, node: Node) -> None:
        self._frozen.discard(node)


def is_keeper(node: Node) -> bool:
    return isinstance(node, str) and (node == KEEPER or node.startswith(f"{KEEPER}-"))


def is_client(node: Node) -> bool:
    return isinstance(node, str) and not is_keeper(node)
