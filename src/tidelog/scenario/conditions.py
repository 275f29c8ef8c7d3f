"""What ``wait`` waits for: one test for each condition, the same on every stage.

A stage shows its cluster as a `ClusterView`. The keeper's tree is the truth about the partition; roles and
watermarks are what a broker itself says; what a replica holds is in its log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.core.assignments import TopicNode
from tidelog.core.types import NO_LEADER, PartitionState, TopicPartition
from tidelog.faults.places import Channel
from tidelog.faults.step import EVERY_GENERATION, print_argument, print_duration
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.setup import Setup, TopicSetup

TIMES_OUT = "times-out"


@dataclass(slots=True, frozen=True)
class Condition:
    name: str
    args: tuple[object, ...]
    within_ms: int | None = None
    times_out: tuple[str, ...] = ()
    """The generations under which it is expected not to come true in time; ``all`` of them."""

    def __str__(self) -> str:
        words = [self.wanted]
        if self.times_out:
            words += [TIMES_OUT, ",".join(self.times_out)]
        return " ".join(words)

    @property
    def wanted(self) -> str:
        """The condition alone, as in the file."""
        words = [self.name, *(print_argument(arg) for arg in self.args)]
        if self.within_ms is not None:
            words += ["within", print_duration(self.within_ms)]
        return " ".join(words)

    def is_to_time_out(self, generation: str) -> bool:
        return generation in self.times_out or EVERY_GENERATION in self.times_out


class ReplicaView(Protocol):
    """One replica as its broker sees it."""

    @property
    def leads(self) -> bool: ...
    @property
    def leader(self) -> int:
        """Whom it follows, if it does."""
        ...

    @property
    def leader_epoch(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...


class ClusterView(Protocol):
    @property
    def clients(self) -> Mapping[str, Producer | Consumer]: ...
    def partition_state(self, tp: TopicPartition) -> PartitionState | None: ...
    def topic_node(self, topic: str) -> TopicNode | None: ...
    def acting_controller(self) -> int | None:
        """Who is elected, if that broker knows it."""
        ...

    def is_registered(self, broker: int) -> bool: ...
    def replica(self, broker: int, tp: TopicPartition) -> ReplicaView | None:
        """None if the broker is down or has none."""
        ...

    def values(self, broker: int, tp: TopicPartition, end: int) -> Collection[str | None]:
        """The values in a replica's log below ``end``."""
        ...

    def in_flight(self, channel: Channel) -> bool: ...


def holds(condition: Condition, view: ClusterView, tp: TopicPartition) -> bool:
    """``tp`` is the partition that conditions speak of. ``converged`` is about all: see `converged`."""
    return TESTS[condition.name](view, tp, *condition.args)


def converged(view: ClusterView, setup: Setup) -> bool:
    """Every replica is in sync to the last record, and aware of it."""
    return all(
        _partition_converged(view, TopicPartition(topic.name, 0), _assigned(view, topic), setup)
        for topic in setup.topics
    )


def _assigned(view: ClusterView, topic: TopicSetup) -> tuple[int, ...]:
    """Where the topic is now; while it moves, at both ends."""
    node = view.topic_node(topic.name)
    return topic.replicas if node is None else node.partitions[0]


def _partition_converged(
    view: ClusterView, tp: TopicPartition, assignment: tuple[int, ...], setup: Setup
) -> bool:
    state = view.partition_state(tp)
    if state is None or state.leader == NO_LEADER:
        return False
    if setup.rules.commits_by_isr and len(state.isr) != len(assignment):
        return False
    leader = view.replica(state.leader, tp)
    if leader is None or not leader.leads:
        return False
    end = leader.log_end_offset
    for broker in assignment:
        replica = leader if broker == state.leader else view.replica(broker, tp)
        if replica is None or replica.leader_epoch != state.leader_epoch:
            return False
        if replica.log_end_offset != end or replica.high_watermark != end:
            return False
    return True


# ---------------------------------------------------------------- one test for each

Test = Callable[..., bool]
"""Of a view, the partition, and the arguments of the condition."""


def _state(test: Callable[[PartitionState, Any], bool]) -> Test:
    def tested(view: ClusterView, tp: TopicPartition, wanted: object) -> bool:
        state = view.partition_state(tp)
        return state is not None and test(state, wanted)

    return tested


def _replica(test: Callable[[ReplicaView, Any], bool]) -> Test:
    def tested(view: ClusterView, tp: TopicPartition, broker: int, wanted: object = None) -> bool:
        replica = view.replica(broker, tp)
        return replica is not None and test(replica, wanted)

    return tested


def _holds(view: ClusterView, tp: TopicPartition, broker: int, value: str) -> bool:
    replica = view.replica(broker, tp)
    return replica is not None and value in view.values(broker, tp, replica.log_end_offset)


def _knows(view: ClusterView, tp: TopicPartition, broker: int, value: str) -> bool:
    replica = view.replica(broker, tp)
    return replica is not None and value in view.values(broker, tp, replica.high_watermark)


def _placed(node: TopicNode | None, partition: int, wanted: tuple[int, ...] | None) -> bool:
    """Whether the partition has these replicas, and does not move. None: whether the topic does not exist."""
    if wanted is None:
        return node is None
    return node is not None and node.partitions.get(partition) == wanted and partition not in node.moves


def _answered(view: ClusterView, _tp: TopicPartition) -> bool:
    return not any(client.undecided for client in view.clients.values() if isinstance(client, Producer))


TESTS: dict[str, Test] = {
    "leader": _state(lambda state, wanted: state.leader == (NO_LEADER if wanted is None else wanted)),
    "epoch": _state(lambda state, wanted: state.leader_epoch == wanted),
    "isr": _state(lambda state, wanted: sorted(state.isr) == sorted(wanted)),
    "replicas": lambda view, tp, wanted: _placed(view.topic_node(tp.topic), tp.partition, wanted),
    "controller": lambda view, _tp, broker: view.acting_controller() == broker,
    "registered": lambda view, _tp, broker: view.is_registered(broker),
    "unregistered": lambda view, _tp, broker: not view.is_registered(broker),
    "leads": _replica(lambda replica, _: replica.leads),
    "follows": _replica(lambda replica, leader: not replica.leads and replica.leader == leader),
    "holds": _holds,
    "knows": _knows,
    "leo": _replica(lambda replica, offset: replica.log_end_offset == offset),
    "hw": _replica(lambda replica, offset: replica.high_watermark == offset),
    "answered": _answered,
    "in-flight": lambda view, _tp, channel: view.in_flight(channel),
}
CONVERGED = "converged"
CONDITIONS = (*TESTS, CONVERGED)
OF_REPLICA = frozenset(("leads", "follows", "holds", "knows", "leo", "hw"))
"""Conditions about what one broker, their first argument, says of its replica."""
