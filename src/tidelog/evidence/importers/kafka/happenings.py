"""What is known to have happened to partitions, wherever it was found, and the events that say so.

A `State` is what a controller wrote about a partition: its leader, its ISR, its eligible leaders. A `Start`
is a broker's own word that it leads from now on, with the end of its log. A `Cut` is a truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.core.reasons import ElectionKind, StateWriteReason, TruncationRule
from tidelog.core.types import Offset, TopicPartition
from tidelog.evidence.event_schema import Row

NONE = -1


@dataclass(slots=True)
class State:
    time_ms: int
    tp: TopicPartition
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    writer: int
    """The controller, or the leader that changed its ISR."""
    version: int | None = None
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovering: bool = False
    reason: ElectionKind | StateWriteReason | None = None
    controller_epoch: int | None = None

    def row(self) -> Row:
        return _row(
            self,
            self.writer,
            "partition_state_written",
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=list(self.isr),
            elr=list(self.elr),
            last_known_elr=list(self.last_known_elr),
            recovering=self.recovering,
            partition_version=self.version,
            controller_epoch=self.controller_epoch,
            rule=self.reason,
        )


@dataclass(slots=True)
class Start:
    time_ms: int
    tp: TopicPartition
    broker: int
    leader_epoch: int
    log_end: Offset
    high_watermark: Offset | None = None
    isr: tuple[int, ...] | None = None

    def row(self) -> Row:
        return _row(
            self,
            self.broker,
            "became_leader",
            leader_epoch=self.leader_epoch,
            leader=self.broker,
            isr=None if self.isr is None else list(self.isr),
            log_end_offset=self.log_end,
            high_watermark=self.high_watermark,
        )


@dataclass(slots=True)
class Cut:
    time_ms: int
    tp: TopicPartition
    broker: int
    before: Offset
    after: Offset
    rule: TruncationRule | None

    def row(self) -> Row:
        return _row(
            self,
            self.broker,
            "truncated",
            previous_log_end_offset=self.before,
            log_end_offset=self.after,
            rule=self.rule,
        )


def _row(happened: State | Start | Cut, broker: int, event: str, **columns: Any) -> Row:
    row: Row = {
        "time_ms": happened.time_ms,
        "broker": broker,
        "event": event,
        "topic": happened.tp.topic,
        "partition": happened.tp.partition,
        **columns,
    }
    return {name: value for name, value in row.items() if value is not None}


@dataclass(slots=True)
class Happenings:
    states: list[State] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings of topics, by name."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Settings of the cluster that topics inherit."""
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    in_kraft: bool = False
    """Whether it is a cluster without ZooKeeper."""

    def last_states(self) -> dict[TopicPartition, State]:
        found: dict[TopicPartition, State] = {}
        for state in self.states:
            known = found.get(state.tp)
            if known is None or _age(state) >= _age(known):
                found[state.tp] = state
        return found

    def ruled_alone(self) -> dict[tuple[TopicPartition, int], int]:
        """Brokers that were the only replica in sync when they last led, with the leader epoch. Until it ends
        everything that they wrote was committed at once, unless more replicas were wanted for that."""
        last = {(state.tp, state.leader): state for state in self.states}
        return {
            place: state.leader_epoch
            for place, state in last.items()
            if state.isr == (state.leader,) and self._commits_alone(state.tp.topic)
        }

    def _commits_alone(self, topic: str) -> bool:
        # In KRaft clusters a high watermark waits for min.insync.replicas.
        wanted = topic_settings(self, topic).get("min.insync.replicas", "1")
        return not self.in_kraft or int(wanted) <= 1

    def merge(self, logs: Happenings) -> None:
        """Take from log files what the metadata log does not say, or says less exactly."""
        known = {state.tp for state in self.states}
        self.states += [state for state in logs.states if state.tp not in known]
        self.starts += logs.starts
        self.cuts += logs.cuts
        for topic, configs in logs.configs.items():
            self.configs[topic] = configs | self.configs.get(topic, {})


def _age(state: State) -> tuple[int, int, int]:
    return state.leader_epoch, -1 if state.version is None else state.version, state.time_ms


def name_elections(states: Sequence[State]) -> None:
    """How each leader was chosen, from what was written before. `states` are in the order of writing."""
    before: dict[TopicPartition, State] = {}
    for state in states:
        if state.reason is None:
            state.reason = _reason(state, before.get(state.tp))
        before[state.tp] = state


def _reason(state: State, previous: State | None) -> ElectionKind | StateWriteReason | None:
    if previous is None:
        return StateWriteReason.CREATED if state.leader_epoch == 0 else None
    if state.leader == NONE:
        return StateWriteReason.REPLICA_OFFLINE
    if state.leader == previous.leader:
        # A controller with ZooKeeper that removes a replica begins an epoch. Otherwise it is not known who
        # asked for the change.
        shrunk = len(state.isr) < len(previous.isr)
        by_controller = shrunk and state.leader_epoch > previous.leader_epoch
        return StateWriteReason.REPLICA_OFFLINE if by_controller else None
    if state.leader in previous.isr:
        return ElectionKind.CLEAN
    if state.leader in previous.elr:
        return ElectionKind.ELIGIBLE
    if not previous.isr and not previous.elr and state.leader in previous.last_known_elr:
        return ElectionKind.LAST_KNOWN_LEADER
    return ElectionKind.UNCLEAN


def event_rows(
    found: Happenings, epochs: Mapping[TopicPartition, Mapping[int, Sequence[tuple[int, Offset]]]]
) -> Iterator[Row]:
    """All events in the order of time. `epochs` are the leader epochs of each replica, by broker."""
    rows = [state.row() for state in found.states] + [cut.row() for cut in found.cuts]
    said = {(start.tp, start.leader_epoch) for start in found.starts}
    rows += [start.row() for start in found.starts]
    rows += [start.row() for start in _elected(found.states, said, epochs)]
    rows.sort(key=lambda row: row["time_ms"])
    counts: dict[int, int] = {}
    for row in rows:
        number = counts.get(row["broker"], 0)
        counts[row["broker"]] = number + 1
        yield row | {"process_start_ms": 0, "sequence": number}


def _elected(
    states: Iterable[State],
    said: set[tuple[TopicPartition, int]],
    epochs: Mapping[TopicPartition, Mapping[int, Sequence[tuple[int, Offset]]]],
) -> Iterator[Start]:
    """Leaders that no log file speaks of: where their term began, leader-epoch checkpoints say."""
    for state in states:
        key = (state.tp, state.leader_epoch)
        if state.leader == NONE or key in said:
            continue
        of_partition = epochs.get(state.tp, {})
        mine = of_partition.get(state.leader) or max(of_partition.values(), key=len, default=())
        begin = next((start for epoch, start in mine if epoch >= state.leader_epoch), None)
        if begin is None:
            continue  # nothing was written in that term, or the checkpoint is not here
        said.add(key)
        yield Start(state.time_ms, state.tp, state.leader, state.leader_epoch, begin, None, state.isr)


def topic_settings(found: Happenings, topic: str) -> dict[str, Any]:
    """The settings of a topic as far as they are known, those of the cluster included."""
    return found.defaults | found.configs.get(topic, {})
