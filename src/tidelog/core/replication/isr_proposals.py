"""Sends the ISR proposals of a broker's leaders and receives the results.

Since KIP-497 it goes to the controller, which writes it. In older generations the leader writes it to the
keeper itself and leaves a notification for the controller, some seconds later: until then the metadata of
all brokers names the old ISR. Either way a proposal stays open until it is answered: it is repeated to a new
controller, on a new connection, and under the broker's own new epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.core import events, keeper_paths
from tidelog.core.keeper_port import ANY_VERSION, Create, Get, KeeperError, Result, SetValue
from tidelog.core.keeper_tasks import KeeperClient
from tidelog.core.messages import AlterIsrRequest, AlterIsrResponse
from tidelog.core.reasons import StateWriteReason
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import NO_LEADER, Millis, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.broker import Broker


NOTE_QUIET_INTERVALS = 2
"""A broker waits until no ISR has changed for this long, to notify of many changes at once..."""
NOTE_PATIENCE_INTERVALS = 24
"""... unless its last notification, or its start, is longer ago than this. With the interval's default these
are Kafka's times."""


class IsrProposals:
    __slots__ = ("_broker", "_changed", "_ctx", "_keeper", "_last_change", "_last_note")

    def __init__(self, broker: Broker, keeper: KeeperClient) -> None:
        self._broker = broker
        self._ctx = broker.ctx
        self._keeper = keeper
        self._changed: dict[TopicPartition, None] = {}
        """Partitions whose ISR this broker has written, and the controller has not heard of."""
        self._last_change: Millis = 0
        self._last_note: Millis | None = None

    def session_started(self, now: Millis) -> None:
        if self._last_note is None:
            self._last_note = now

    def propose(self, proposal: AlterIsrRequest) -> None:
        ctx, broker = self._ctx, self._broker
        if ctx.generation.isr_through_controller:
            if broker.known_controller != NO_LEADER:
                ctx.send(broker.known_controller, proposal)
            return
        state = PartitionState(ctx.broker, proposal.leader_epoch, proposal.isr, broker.controller_epoch)
        version = proposal.version if ctx.guards.partition_version else ANY_VERSION
        write = SetValue(keeper_paths.state_path(proposal.tp), state, version)
        self._keeper.call(write, lambda result: self._written(proposal, state, result))

    def repeat(self) -> None:
        """Repeat every pending ISR proposal."""
        for replica in self._broker.replicas.values():
            role = replica.role
            if isinstance(role, LeaderRole) and role.proposal is not None:
                role.proposal = replace(role.proposal, broker_epoch=self._ctx.broker_epoch)
                self.propose(role.proposal)

    def answered(self, response: AlterIsrResponse, now: Millis) -> None:
        replica = self._broker.replicas.get(response.tp)
        role = replica.role if replica is not None else None
        if isinstance(role, LeaderRole):
            if response.error is ErrorCode.NOT_CONTROLLER and role.proposal is not None:
                return  # repeated when the new controller sends its first request
            role.isr_change_answered(response, now)

    # ------------------------------------------------------------ before KIP-497: the leader writes

    def _written(self, proposal: AlterIsrRequest, state: PartitionState, result: Result) -> None:
        """The keeper answered a leader's own ISR write."""
        tp = proposal.tp
        response = AlterIsrResponse(
            tp=tp,
            error=ErrorCode.NONE,
            leader_epoch=proposal.leader_epoch,
            number=proposal.number,
            isr=proposal.isr,
        )
        if result.ok:
            response.version = result.value.version
            written = replace(state, version=result.value.version)
            reason = StateWriteReason.ISR_WRITTEN
            self._ctx.emit(events.PartitionStateWritten(self._ctx.broker, tp, written, reason))
            self._note_later(tp, self._ctx.now)
        elif result.error is KeeperError.BAD_VERSION:
            # Refused, or a repeated call found its own write: read the node to decide.
            self._keeper.call(
                Get(keeper_paths.state_path(tp)), lambda found: self._reread(proposal, state, found)
            )
            return
        else:
            response.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.answered(response, self._ctx.now)

    def _note_later(self, tp: TopicPartition, now: Millis) -> None:
        self._last_change = now
        if not self._changed:
            interval = self._ctx.config.isr_notification_interval_ms
            self._ctx.set_timer((now // interval + 1) * interval, self._note)
        self._changed[tp] = None

    def _note(self, now: Millis) -> None:
        interval = self._ctx.config.isr_notification_interval_ms
        quiet = now - self._last_change > NOTE_QUIET_INTERVALS * interval
        if quiet or self._last_note is None or now - self._last_note > NOTE_PATIENCE_INTERVALS * interval:
            self._last_note = now
            changed, self._changed = tuple(self._changed), {}
            note = Create(f"{keeper_paths.ISR_NOTIFICATIONS}/isr_change_", changed, sequential=True)
            self._keeper.call(note, lambda _: None)
        else:
            self._ctx.set_timer(now + interval, self._note)

    def _reread(self, proposal: AlterIsrRequest, state: PartitionState, found: Result) -> None:
        response = AlterIsrResponse(
            tp=proposal.tp,
            error=ErrorCode.INVALID_UPDATE_VERSION,
            leader_epoch=proposal.leader_epoch,
            number=proposal.number,
            isr=proposal.isr,
        )
        written: PartitionState | None = found.value.value if found.ok else None
        if written is not None and (written.leader, written.leader_epoch, written.isr) == (
            state.leader,
            state.leader_epoch,
            state.isr,
        ):
            # Only the leader of an epoch writes ISRs in it: this is the leader's own write.
            response.error, response.version = ErrorCode.NONE, found.value.stat.version
        self.answered(response, self._ctx.now)
