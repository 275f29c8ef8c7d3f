"""Partition states in the keeper: written and read by the controller alone.

A write is conditional on the version that it replaces, and fenced: a controller that was deposed writes
nothing. Several writes go into one transaction, which is all or nothing. Every method that writes is a task
step: it yields keeper operations (``keeper_tasks.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog.core import events
from tidelog.core.context import Context
from tidelog.core.controller.broker_channels import ControlChannels
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.keeper_paths import CONTROLLER_EPOCH, state_path
from tidelog.core.keeper_port import Check, Get, KeeperError, Multi, Result, SetValue, Write
from tidelog.core.keeper_tasks import Deposed, Procedure, Task, Together
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.core.types import BrokerId, LeaderEpoch, PartitionState, TopicPartition


class Why(NamedTuple):
    """Why a state is written: see ``PartitionStateWritten``."""

    reason: StateWriteReason | ElectionKind
    absent: BrokerId | None = None


class Change(NamedTuple):
    """The new state of a partition; ``version`` is that of the state it replaces."""

    tp: TopicPartition
    state: PartitionState
    version: int
    why: Why


def successor(state: PartitionState, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionState:
    return replace(state, leader=leader, isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


class KeptStates:
    """The partition states of one controller: those it knows are in ``cluster.states``."""

    __slots__ = ("_fence", "channels", "cluster", "ctx")

    def __init__(
        self, ctx: Context, cluster: ClusterState, channels: ControlChannels, epoch_version: int
    ) -> None:
        self.ctx = ctx
        self.cluster = cluster
        self.channels = channels
        self._fence = Check(CONTROLLER_EPOCH, epoch_version)
        """The first write of every transaction: a deposed controller's writes fail as a whole."""

    def fenced(self, *writes: Write) -> Procedure[Result]:
        """All writes or none; none if another controller has been elected. If they are refused,
        ``Result.value`` is the index of the first failed write; None if they are too large together."""
        result = yield Multi((self._fence, *writes))
        if result.ok or result.error is KeeperError.TOO_LARGE:
            return result
        if result.value == 0:
            raise Deposed
        return Result(result.error, result.value - 1)

    def write_state(
        self, tp: TopicPartition, state: PartitionState, version: int, why: Why
    ) -> Procedure[bool]:
        """Conditionally replace a partition's state. False: another broker wrote it, and it was read
        again."""
        if (yield from self.write_states((Change(tp, state, version, why),))):
            return True
        yield from self.read_state(tp)
        return False

    def write_states(self, changes: Sequence[Change]) -> Procedure[bool]:
        """The same for several partitions, of which all are replaced or none."""
        epoch = self.channels.controller_epoch
        written = [
            replace(state, controller_epoch=epoch, version=version + 1) for _, state, version, _ in changes
        ]
        result = yield from self.fenced(
            *(
                SetValue(state_path(change.tp), state, change.version)
                for change, state in zip(changes, written, strict=True)
            )
        )
        if result.ok:
            for change, state in zip(changes, written, strict=True):
                self.state_written(change.tp, state, change.why)
        return result.ok

    def state_written(self, tp: TopicPartition, state: PartitionState, why: Why) -> None:
        self.cluster.states[tp] = state
        self.ctx.emit(events.PartitionStateWritten(self.ctx.broker, tp, state, *why))

    def refresh_states(self, *tps: TopicPartition) -> Task:
        """Where leaders write their ISR to the keeper themselves, the cached states may be outdated."""
        known = [tp for tp in tps if tp in self.cluster.states]
        if known and not self.ctx.generation.isr_through_controller:
            found = yield Together(tuple(Get(state_path(tp)) for tp in known))
            for tp, result in zip(known, found.value, strict=True):
                self._state_read(tp, result)

    def read_state(self, tp: TopicPartition) -> Task:
        self._state_read(tp, (yield Get(state_path(tp))))

    def _state_read(self, tp: TopicPartition, result: Result) -> None:
        if result.ok:
            self.cluster.states[tp] = replace(result.value.value, version=result.value.stat.version)
