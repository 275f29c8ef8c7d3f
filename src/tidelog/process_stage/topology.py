"""Zones, cut links and the keeper's members of a play.

One embedded keeper represents the whole ensemble. While a broker reaches no serving member by the lab's own
rule (``scenario/keeper_members.py``), its link to the keeper is cut. A real ZooKeeper ensemble would need a
process for each member; it is not played here.

The switchboard knows brokers, clients and ``keeper``. This file translates the scenario's changes into the
switchboard's, and returns which brokers lost and regained the keeper.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.faults.places import KEEPER, Node
from tidelog.scenario.keeper_members import Ensemble, KeeperMember
from tidelog.scenario.setup import Setup

Pair = tuple[Node, Node]


class Reach(NamedTuple):
    """Brokers whose link to the keeper changed."""

    lost: list[int]
    found: list[int]


class Topology:
    def __init__(self, setup: Setup, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._brokers = range(setup.brokers)
        members = tuple(f"keeper-{number}" for number in range(setup.keepers))
        self._ensemble = Ensemble(members)
        self._zones: dict[Node, str] = {broker: setup.zone(broker) for broker in self._brokers}
        self._zones.update({member: setup.zone(number) for number, member in enumerate(members)})
        self._cut: dict[Pair, None] = {}
        self._without_keeper: dict[int, None] = {}
        for broker in self._brokers:
            switchboard.add(broker, self._zones[broker])
            self._connects(broker)
        switchboard.add(KEEPER, "")

    def add_client(self, name: str, zone: str) -> None:
        """A client that is added in a zone that is cut off is cut off as well."""
        self._zones[name] = zone
        for a, b in list(self._cut):
            if isinstance(a, int) and isinstance(b, int):
                if self._zones[a] == zone:
                    self._cut[name, b] = None
                if self._zones[b] == zone:
                    self._cut[a, name] = None
        self._switchboard.add(name, zone)

    # ------------------------------------------------------------ asking

    def zone_of(self, node: Node) -> str:
        return self._zones[node]

    def zones(self) -> list[str]:
        return list(dict.fromkeys(self._zones.values()))

    def nodes_in(self, zone: str) -> list[Node]:
        return [node for node, of in self._zones.items() if of == zone]

    def linked(self, a: Node, b: Node) -> bool:
        return (a, b) not in self._cut and (b, a) not in self._cut

    def reaches_keeper(self, broker: int) -> bool:
        return broker not in self._without_keeper

    def keeper_members(self) -> tuple[KeeperMember, ...]:
        return self._ensemble.states(self.linked)

    def keeper_member_of(self, broker: int) -> str | None:
        """The member that a broker's session would be at, by the lab's rule."""
        return self._ensemble.session_at.get(broker)

    @property
    def keeper_has_quorum(self) -> bool:
        return self._ensemble.leader is not None

    # ------------------------------------------------------------ changing

    def cut(self, pairs: Iterable[Pair]) -> Reach:
        pairs = list(pairs)
        self._cut.update(dict.fromkeys(pairs))
        reach = self._reach_changed()
        self._switchboard.cut(pair for pair in pairs if _is_relayed(pair))
        return reach

    def heal(self, pairs: Iterable[Pair] | None) -> Reach:
        healed = [pair for pair in (self._cut if pairs is None else pairs) if pair in self._cut]
        for pair in healed:
            del self._cut[pair]
        self._switchboard.heal(pair for pair in healed if _is_relayed(pair))
        return self._reach_changed()

    def keeper_member(self, member: str, *, running: bool) -> Reach:
        self._ensemble.running[member] = running
        return self._reach_changed()

    def _reach_changed(self) -> Reach:
        """Compute which brokers reach a serving member."""
        self._ensemble.update_leader(self.linked)
        reach = Reach([], [])
        for broker in self._brokers:
            link: list[Pair] = [(broker, KEEPER), (KEEPER, broker)]
            if self._connects(broker):
                if broker in self._without_keeper:
                    del self._without_keeper[broker]
                    self._switchboard.heal(link)
                    reach.found.append(broker)
            elif broker not in self._without_keeper:
                self._without_keeper[broker] = None
                self._switchboard.cut(link)
                reach.lost.append(broker)
        return reach

    def _connects(self, broker: int) -> bool:
        return self._ensemble.connect(broker, self._zones, self.linked)


def _is_relayed(pair: Pair) -> bool:
    """The switchboard has no members of the keeper, and no links between clients."""
    return any(isinstance(node, int) for node in pair) and not any(
        isinstance(node, str) and node.startswith(f"{KEEPER}-") for node in pair
    )
