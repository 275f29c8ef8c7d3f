"""A fault that was done to a cluster and can be undone: by `heal`, or at the end of a `with` block.

    with cluster.kill(2):
        …                      # broker 2 is dead
    …                          # broker 2 runs, and all replicas are in sync

The fault is done when its method is called; the block only says until when. Healing the last active fault
waits until all replicas are in sync, so the next step finds a whole cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tidelog.cluster.answers import ANSWER_SECONDS
from tidelog.cluster.errors import ClusterError, NotPossibleHere
from tidelog.cluster.testbed import ClusterTestbed
from tidelog.errors import unknown
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults.base import Absence, Fault
from tidelog.faults.places import KEEPER, Node
from tidelog.faults.targets import Takes, Targets, amount_ms, places, read_targets
from tidelog.faults.testbed import FaultFailed

if TYPE_CHECKING:
    from tidelog.cluster.cluster import Cluster

Side = Node | Sequence[Node]
"""One side of links: a broker, `keeper`, a client by its name; or several of them."""


class ActiveFault:
    """What was done, to what, when; and how to undo it."""

    def __init__(
        self,
        kind: str,
        targets: Sequence[str],
        undo: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        """`undo` undoes it; `settle` is called afterwards, to wait until the cluster is whole. Either raises
        `ClusterError`."""
        self.kind = kind
        self.targets = tuple(targets)
        self.began_us = time.time_ns() // 1000
        self.ended_us: int | None = None
        """When it was healed; None while it lasts."""
        self._undo = undo
        self._settle = settle

    @property
    def active(self) -> bool:
        return self.ended_us is None

    def ended(self) -> None:
        """It lasts no longer, whatever ended it."""
        if self.ended_us is None:
            self.ended_us = time.time_ns() // 1000

    def heal(self) -> None:
        """Undo it. Healing twice changes nothing."""
        if self.active:
            self._undo()
            self.ended()
            self._settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<{' '.join((self.kind, *self.targets))}: {'active' if self.active else 'healed'}>"


Made = TypeVar("Made", bound=ActiveFault)


_LINKED: Final = (Takes.SIDES, Takes.DELAY, Takes.CHANNEL_OR_ALL)


class ActiveFaults:
    """Does faults to a cluster, and keeps the book of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.history: list[ActiveFault] = []

    def active(self) -> list[ActiveFault]:
        return [fault for fault in self.history if fault.active]

    def inject(self, kind: str, words: Sequence[object]) -> ActiveFault:
        """Raises `ClusterError` if it cannot be done, `Refusal` if there is no such fault."""
        if kind not in TRIAL_FAULTS:
            raise unknown("fault", kind, tuple(TRIAL_FAULTS))
        fault, texts = TRIAL_FAULTS[kind], tuple(map(str, words))
        self.check(fault, texts)
        self._check_nodes(kind, texts)
        targets = read_targets(texts)
        bed = ClusterTestbed(self._cluster, self._cluster.client_zones)
        try:
            fault.inject(bed, targets)
        except FaultFailed as error:
            why = NotPossibleHere if isinstance(error.__cause__, NotPossibleHere) else ClusterError
            raise why(f"{' '.join((kind, *texts))}: {error}") from None
        done: ActiveFault = self.begun(kind, texts, lambda: self._undo(fault, bed, targets))
        if fault.away is Absence.NOTHING:
            done.ended()
        return done

    def reset(self, pairs: Sequence[tuple[Node, Node]]) -> ActiveFault:
        """Break connections; nothing lasts. Raises `ClusterError`."""
        words = [f"{_word(a)}>{_word(b)}" for a, b in pairs]
        self._check_nodes("reset", words)
        self._cluster.network.reset(pairs)
        done: ActiveFault = self.begun("reset", words, lambda: None)
        done.ended()
        return done

    def begun(
        self,
        kind: str,
        targets: Sequence[str],
        undo: Callable[[], None],
        *,
        made: type[Made] = ActiveFault,  # type: ignore[assignment]
    ) -> Made:
        """Enter a fault into the book that was done in another way."""
        done = made(kind, targets, undo, self._settle)
        self.history.append(done)
        return done

    def check(self, fault: Fault, words: Sequence[str]) -> None:
        """Whether there is what it would hit: a broker or a zone that is not there suffers nothing. Clients
        may come later. Raises `ClusterError`."""
        what = " ".join((fault.name, *words))
        if fault.has_amount != (amount_ms(words) is not None):
            raise ClusterError(f"{what}: expected targets like 1, 300ms")
        hit = places(words)
        if fault.takes in _LINKED:
            if not hit or not all(">" in word for word in hit):
                raise ClusterError(f"{what}: expected links like 1>2")
        elif fault.takes is Takes.ZONE:
            zones = self._cluster.spec.zones
            if len(hit) != 1 or hit[0] not in zones:
                raise ClusterError(f"{what}: expected a zone: {', '.join(zones)}")
        elif fault.takes is not Takes.MEMBER and not all(word.isdigit() for word in hit):
            raise ClusterError(f"{what}: expected brokers like 1")
        for node in (node for word in hit for node in word.split(">") if node.isdigit()):
            self._cluster.broker(int(node))

    def _check_nodes(self, kind: str, words: Sequence[str]) -> None:
        for word in words:
            for node in word.split(">"):
                if node.isdigit():
                    self._cluster.broker(int(node))
                elif node not in (word, KEEPER) and node not in self._cluster.client_zones:
                    raise ClusterError(
                        f"{kind} {word}: there is no {node}; give a broker, {KEEPER}, "
                        f"or a client that was connected with client_config(…, client={node!r})"
                    )

    def _undo(self, fault: Fault, bed: ClusterTestbed, targets: Targets) -> None:
        """Only what still suffers: a broker may have been started, or killed, meanwhile."""
        leaves = fault.leaves
        if leaves is None:
            return
        if targets.brokers:
            left = [
                broker
                for broker in targets.brokers
                if leaves.moot(bed, replace(targets, brokers=(broker,))) is None
                and (leaves.restarts or bed.is_up(broker))
            ]
            if not left:
                return
            targets = replace(targets, brokers=tuple(left))
        try:
            leaves.mend(bed, targets)
        except FaultFailed as error:
            raise ClusterError(f"{fault.name} cannot be healed: {error}") from None

    def _settle(self) -> None:
        if not self.active():
            self._cluster.wait_in_sync(timeout_s=ANSWER_SECONDS)

    def all_ended(self) -> None:
        for fault in self.active():
            fault.ended()


def links(a: Side, b: Side, *, one_way: bool = False) -> list[str]:
    """The links between two sides, as a schedule writes them."""
    pairs = node_pairs(a, b)
    back = [] if one_way else [(y, x) for x, y in pairs]
    return [f"{_word(x)}>{_word(y)}" for x, y in (*pairs, *back)]


def node_pairs(a: Side, b: Side) -> list[tuple[Node, Node]]:
    return [(x, y) for x in _nodes(a) for y in _nodes(b)]


def _nodes(side: Side) -> list[Any]:
    return [side] if isinstance(side, int | str) else list(side)


def _word(node: Node) -> str:
    return str(int(node)) if isinstance(node, int) else node
