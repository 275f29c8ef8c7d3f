"""Log messages about events of a broker: one line per incident, however many partitions it affects.

Rules of the file:

* When a broker dies, a thousand partitions may lose their leader within seconds: that is one line, with the
  first few partitions by name. So lines about partitions wait for more of the same kind; ``tell``, called
  four times a second, writes a line when no more have come.
* Repeated events (a follower refused again, a log that fails again) are logged once, until the partition gets
  another leader.
* Normal changes of roles are logged at ``debug``. Events that explain a loss or an unavailable partition
  (elections, in-sync replicas, truncations) are logged at ``info``; events that may lose records at
  ``warning``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING
from typing import Any, assert_never

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.core.types import NO_LEADER, BrokerId, TopicPartition
from tidelog.evidence import process_events as p
from tidelog.narrate.phrasebook import say, words
from tidelog.narrate.reasons import why
from tidelog.wire.errors import ErrorCode

NAMED_MAX = 4
TOLD_AFTER_CALLS_MAX = 20
_PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Leader and follower learn of a change one after the other. Until both have, these errors are normal."""


@dataclass(slots=True)
class _Line:
    """A pending line, to which partitions are added."""

    level: int
    key: str
    fields: dict[str, str | int]
    named: list[str]
    count: int = 0
    count_at_last_call: int = 0
    calls: int = 0

    def add(self, what: str) -> None:
        self.count += 1
        if len(self.named) < NAMED_MAX:
            self.named.append(what)

    def is_due(self) -> bool:
        grew, self.count_at_last_call = self.count != self.count_at_last_call, self.count
        self.calls += 1
        return not grew or self.calls >= TOLD_AFTER_CALLS_MAX

    def __str__(self) -> str:
        more = self.count - len(self.named)
        partitions = ", ".join(self.named)
        if more:
            partitions = words("log.and_more", named=partitions, more=more)
        return words(self.key, **self.fields, partitions=partitions)


class Narration:
    def __init__(self) -> None:
        self._log = logging.getLogger("tidelog.node")
        self._waiting: dict[tuple[int | str, ...], _Line] = {}
        self._said: dict[tuple[type, TopicPartition], str] = {}
        """Problems that were logged for a partition, so that they are not repeated."""
        self._proposed: dict[TopicPartition, e.IsrChangeProposed] = {}
        self._live: Mapping[BrokerId, int] | None = None
        self._broker_epoch = 0

    def observe(self, event: Any) -> None:
        words = _WORDS.get(type(event))
        if words is not None:
            words(self, event)

    def live_brokers(self, live: Mapping[BrokerId, int] | None) -> None:
        """The live brokers with their broker epochs, on the controller; None on other brokers."""
        before, self._live = self._live, None if live is None else dict(live)
        if before is None or live is None or before == live:
            return
        for broker in sorted(before.keys() | live.keys()):
            if broker not in live:
                self._say(INFO, "broker_left", broker=broker)
            elif broker not in before:
                self._say(INFO, "broker_joined", broker=broker)
            elif before[broker] != live[broker]:
                self._say(INFO, "broker_restarted", broker=broker)

    def tell(self, *, all_of_it: bool = False) -> None:
        """Write pending lines to which nothing was added since the last call."""
        for key, line in list(self._waiting.items()):
            if line.is_due() or all_of_it:
                del self._waiting[key]
                self._log.log(line.level, "%s", line)

    # ------------------------------------------------------------ composing lines

    def _say(self, level: int, key: str, **fields: str | int) -> None:
        if self._log.isEnabledFor(level):
            self._log.log(level, "%s", words(f"log.{key}", **fields))

    def _together(self, level: int, key: str, what: object, **fields: str | int) -> None:
        """Add ``what`` to a pending line about partitions."""
        if self._log.isEnabledFor(level):
            alike = (level, key, *fields.values())
            line = self._waiting.get(alike)
            if line is None:
                line = self._waiting[alike] = _Line(level, f"log.{key}", fields, [])
            line.add(str(what))

    def _once(self, event: Any, said: str) -> bool:
        """Whether this was not logged yet for the partition."""
        key = type(event), event.tp
        if self._said.get(key) == said:
            return False
        self._said[key] = said
        return True

    # ------------------------------------------------------------ roles

    def _became_leader(self, event: e.BecameLeader) -> None:
        self._forget(event.tp)
        self._together(DEBUG, "leads", _in_epoch(event))

    def _became_follower(self, event: e.BecameFollower) -> None:
        self._forget(event.tp)
        self._together(DEBUG, "follows", _in_epoch(event), leader=event.leader)

    def _forget(self, tp: TopicPartition) -> None:
        for kind in (e.FollowerStalled, e.StorageFailed):
            self._said.pop((kind, tp), None)
        self._proposed.pop(tp, None)

    def _follower_stalled(self, event: e.FollowerStalled) -> None:
        if self._once(event, event.error.name):
            level = DEBUG if event.error in _PASSING else WARNING
            self._together(level, "cannot_follow", event.tp, why=event.error.name)

    def _exited(self, event: e.BrokerExited) -> None:
        ends = {"end": event.log_end_offset, "leader_end": event.leader_end_offset}
        self._say(CRITICAL, "exits", tp=str(event.tp), leader=event.leader, **ends)

    def _truncated(self, event: e.Truncated) -> None:
        cut = words("log.cut", tp=str(event.tp), before=event.before, after=event.after)
        self._together(INFO, "truncated", cut, why=say(why(event)))

    def _storage_failed(self, event: e.StorageFailed) -> None:
        if self._once(event, event.reason):
            self._say(ERROR, "storage_failed", tp=str(event.tp), why=event.reason)

    def _went_offline(self, event: e.ReplicaWentOffline) -> None:
        failed = words("log.failed_log", tp=str(event.tp), why=event.reason)
        self._together(ERROR, "went_offline", failed)

    def _came_online(self, event: e.ReplicaCameOnline) -> None:
        self._together(INFO, "came_online", event.tp)

    # ------------------------------------------------------------ in-sync replicas

    def _isr_proposed(self, event: e.IsrChangeProposed) -> None:
        self._proposed[event.tp] = event

    def _isr_changed(self, event: e.IsrChanged) -> None:
        proposed = self._proposed.pop(event.tp, None)
        if proposed is None:
            return
        for key, brokers in (
            ("isr_left", [b for b in proposed.before if b not in event.isr]),
            ("isr_joined", [b for b in event.isr if b not in proposed.before]),
        ):
            if brokers:
                many = "log.brokers" if len(brokers) > 1 else "log.broker"
                who = words(many, brokers=_names(brokers))
                self._together(INFO, key, event.tp, who=who, why=say(why(proposed)))

    def _isr_refused(self, event: e.IsrChangeRefused) -> None:
        self._together(DEBUG, "isr_refused", event.tp, why=event.error.name)

    # ------------------------------------------------------------ the controller

    def _controller_elected(self, event: e.ControllerElected) -> None:
        self._say(INFO, "controller_elected", epoch=event.controller_epoch)

    def _controller_resigned(self, event: e.ControllerResigned) -> None:
        self._say(INFO, "controller_resigned", why=say(why(event)))

    def _state_written(self, event: e.PartitionStateWritten) -> None:
        state, reason = event.state, say(why(event))
        leads = words("log.led", tp=str(event.tp), leader=state.leader, epoch=state.leader_epoch)
        match event.reason:
            case ElectionKind.UNCLEAN | ElectionKind.LAST_KNOWN_LEADER:
                self._together(WARNING, "elected_unclean", leads)
            case (
                ElectionKind.CLEAN
                | ElectionKind.PREFERRED
                | ElectionKind.MAJORITY
                | ElectionKind.CONTROLLED_SHUTDOWN
                | ElectionKind.ELIGIBLE
                | ElectionKind.REASSIGNED
            ):
                self._together(INFO, "elected", leads, why=reason)
            case StateWriteReason.REPLICA_OFFLINE | StateWriteReason.UNCLEAN_SHUTDOWN if (
                state.leader == NO_LEADER
            ):
                self._together(INFO, "no_leader", event.tp, why=reason)
            case StateWriteReason.REPLICA_OFFLINE | StateWriteReason.UNCLEAN_SHUTDOWN:
                in_sync = words("log.in_sync", tp=str(event.tp), isr=_names(state.isr))
                self._together(INFO, "isr_smaller", in_sync, why=reason)
            case (
                StateWriteReason.CREATED
                | StateWriteReason.ISR_ASKED
                | StateWriteReason.ISR_WRITTEN
                | StateWriteReason.BALLOT_OPENED
                | StateWriteReason.ELIGIBLE_CLEARED
                | StateWriteReason.REASSIGNED
            ):
                self._together(DEBUG, "state_written", leads, why=reason)
            case _:
                assert_never(event.reason)

    def _election_failed(self, event: e.ElectionFailed) -> None:
        if self._once(event, event.reason):
            self._together(WARNING, "election_failed", event.tp, why=say(why(event)))

    def _topic_deletion_started(self, event: e.TopicDeletionStarted) -> None:
        self._say(DEBUG, "topic_deletion_started", topic=event.topic)

    def _topic_deleted(self, event: e.TopicDeleted) -> None:
        self._say(INFO, "topic_deleted", topic=event.topic)

    def _reassignment_started(self, event: e.ReassignmentStarted) -> None:
        adding, removing = _names(event.adding) or "-", _names(event.removing) or "-"
        self._say(INFO, "reassignment_started", tp=str(event.tp), adding=adding, removing=removing)

    def _reassignment_completed(self, event: e.ReassignmentCompleted) -> None:
        self._together(INFO, "reassignment_completed", event.tp)

    def _reassignment_cancelled(self, event: e.ReassignmentCancelled) -> None:
        self._together(INFO, "reassignment_cancelled", event.tp)

    # ------------------------------------------------------------ this broker

    def _registered(self, event: e.BrokerRegistered) -> None:
        before, self._broker_epoch = self._broker_epoch, event.broker_epoch
        if before != event.broker_epoch:
            self._say(INFO if before else DEBUG, "registered", broker_epoch=event.broker_epoch)

    def _control_refused(self, event: e.ControlRequestRefused) -> None:
        self._say(INFO, "control_refused", request=event.request, why=event.error.name)

    def _stray_found(self, event: e.StrayReplicaFound) -> None:
        if self._once(event, event.reason):
            self._together(WARNING, "stray_found", event.tp, why=say(why(event)))

    def _replica_deleted(self, event: e.ReplicaDeleted) -> None:
        for key in [key for key in self._said if key[1] == event.tp]:
            del self._said[key]
        self._proposed.pop(event.tp, None)
        self._together(DEBUG, "replica_deleted", event.tp)

    def _topic_configured(self, event: e.TopicConfigured) -> None:
        values = ", ".join(f"{name}={value}" for name, value in event.values.items())
        values = values or words("log.defaults_only")
        self._say(DEBUG, "topic_configured", topic=event.topic, values=values)

    def _log_recovered(self, event: p.LogRecovered) -> None:
        self._say(WARNING, "log_recovered", tp=str(event.tp), finding=event.finding)

    def _storage_recovered(self, event: p.StorageRecovered) -> None:
        if event.partitions:
            key = "opened_clean" if event.clean_shutdown else "opened_after_crash"
            self._say(INFO, key, partitions=event.partitions, seconds=f"{event.duration_ms / 1000:.2f}")

    def _session_lost(self, event: p.KeeperSessionLost) -> None:
        self._say(WARNING, "session_lost", why=event.reason)

    def _reconnected(self, _event: p.KeeperReconnected) -> None:
        self._say(INFO, "reconnected")

    def _shutdown_begun(self, event: p.ControlledShutdownBegun) -> None:
        self._say(INFO, "shutdown_begun", why=event.reason)

    def _shutdown_finished(self, event: p.ControlledShutdownFinished) -> None:
        key = "shutdown_incomplete" if event.leaders else "shutdown_finished"
        self._say(INFO, key, duration_ms=event.duration_ms, leaders=event.leaders)


def _names(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))


def _in_epoch(event: e.BecameLeader | e.BecameFollower) -> str:
    return words("log.in_epoch", tp=str(event.tp), epoch=event.epoch)


_WORDS: dict[type, Callable[[Narration, Any], None]] = {
    e.BecameLeader: Narration._became_leader,
    e.BecameFollower: Narration._became_follower,
    e.FollowerStalled: Narration._follower_stalled,
    e.BrokerExited: Narration._exited,
    e.Truncated: Narration._truncated,
    e.StorageFailed: Narration._storage_failed,
    e.ReplicaWentOffline: Narration._went_offline,
    e.ReplicaCameOnline: Narration._came_online,
    e.IsrChangeProposed: Narration._isr_proposed,
    e.IsrChanged: Narration._isr_changed,
    e.IsrChangeRefused: Narration._isr_refused,
    e.ControllerElected: Narration._controller_elected,
    e.ControllerResigned: Narration._controller_resigned,
    e.PartitionStateWritten: Narration._state_written,
    e.ElectionFailed: Narration._election_failed,
    e.TopicDeletionStarted: Narration._topic_deletion_started,
    e.TopicDeleted: Narration._topic_deleted,
    e.ReassignmentStarted: Narration._reassignment_started,
    e.ReassignmentCompleted: Narration._reassignment_completed,
    e.ReassignmentCancelled: Narration._reassignment_cancelled,
    e.BrokerRegistered: Narration._registered,
    e.ControlRequestRefused: Narration._control_refused,
    e.StrayReplicaFound: Narration._stray_found,
    e.ReplicaDeleted: Narration._replica_deleted,
    e.TopicConfigured: Narration._topic_configured,
    p.LogRecovered: Narration._log_recovered,
    p.StorageRecovered: Narration._storage_recovered,
    p.KeeperSessionLost: Narration._session_lost,
    p.KeeperReconnected: Narration._reconnected,
    p.ControlledShutdownBegun: Narration._shutdown_begun,
    p.ControlledShutdownFinished: Narration._shutdown_finished,
}
