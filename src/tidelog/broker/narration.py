"""What happens to a broker, in the words of its log: one line for each incident, however much it touches.

Rules of the file:

* A broker that dies costs a thousand partitions their leader within a few seconds: that is one line, with
  the first few of them by name. So lines about partitions wait for others of their kind, until there are no
  more; ``tell`` is called four times a second and knows.
* What repeats itself (a follower that is refused again, a log that fails again) is said once, until the
  partition gets another leader.
* Everyday changes of roles are for ``tidelog.log.level=debug``. Whatever explains a loss or an unavailable
  partition (elections, in-sync replicas, truncations) is told at ``info``; what may lose records, warns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any

from tidelog.core import events as e
from tidelog.core.types import NO_LEADER, BrokerId, TopicPartition
from tidelog.evidence import process_events as p
from tidelog.wire.errors import ErrorCode

NAMED_MAX = 4
TOLD_AFTER_CALLS_MAX = 20
ELECTIONS = ("first live in-sync replica", "preferred leader", "longest log of a majority")
UNCLEAN_ELECTION = "unclean election"
SHUTTING_DOWN = "is shutting down"
OFFLINE = "is offline"
_PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""A leader and a follower hear of a change one after the other: until both have, this is what they say."""


@dataclass(slots=True)
class _Line:
    """A line to be, about ever more partitions."""

    level: int
    before: str
    after: str
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
        partitions = ", ".join(self.named) + (f" and {more} more" if more else "")
        return f"{self.before} {partitions}" + (f": {self.after}" if self.after else "")


class Narration:
    def __init__(self) -> None:
        self._log = logging.getLogger("tidelog.node")
        self._waiting: dict[tuple[int, str, str], _Line] = {}
        self._said: dict[tuple[type, TopicPartition], str] = {}
        """What was complained about a partition, so that it is not said again."""
        self._proposed: dict[TopicPartition, e.IsrChangeProposed] = {}
        self._live: Mapping[BrokerId, int] | None = None
        self._broker_epoch = 0

    def observe(self, event: Any) -> None:
        words = _WORDS.get(type(event))
        if words is not None:
            words(self, event)

    def live_brokers(self, live: Mapping[BrokerId, int] | None) -> None:
        """Who is there, as the controller sees it, with their broker epochs; None on any other broker."""
        before, self._live = self._live, None if live is None else dict(live)
        if before is None or live is None or before == live:
            return
        for broker in sorted(before.keys() | live.keys()):
            if broker not in live:
                self._log.info("broker %s left", broker)
            elif broker not in before:
                self._log.info("broker %s joined", broker)
            elif before[broker] != live[broker]:
                self._log.info("broker %s was started again", broker)

    def tell(self, *, all_of_it: bool = False) -> None:
        """Say what has been waiting for company and gets no more of it."""
        for key, line in list(self._waiting.items()):
            if line.is_due() or all_of_it:
                del self._waiting[key]
                self._log.log(line.level, "%s", line)

    # ------------------------------------------------------------ how lines come to be

    def _together(self, level: int, before: str, what: object, after: str = "") -> None:
        if self._log.isEnabledFor(level):
            line = self._waiting.get((level, before, after))
            if line is None:
                line = self._waiting[level, before, after] = _Line(level, before, after, [])
            line.add(str(what))

    def _once(self, event: Any, said: str) -> bool:
        """Whether it is news about this partition."""
        key = type(event), event.tp
        if self._said.get(key) == said:
            return False
        self._said[key] = said
        return True

    # ------------------------------------------------------------ roles

    def _became_leader(self, event: e.BecameLeader) -> None:
        self._forget(event.tp)
        self._together(DEBUG, "leads", f"{event.tp} (epoch {event.epoch})")

    def _became_follower(self, event: e.BecameFollower) -> None:
        self._forget(event.tp)
        self._together(DEBUG, f"follows broker {event.leader} in", f"{event.tp} (epoch {event.epoch})")

    def _forget(self, tp: TopicPartition) -> None:
        for kind in (e.FollowerStalled, e.StorageFailed):
            self._said.pop((kind, tp), None)
        self._proposed.pop(tp, None)

    def _follower_stalled(self, event: e.FollowerStalled) -> None:
        if self._once(event, event.error.name):
            level = DEBUG if event.error in _PASSING else WARNING
            self._together(level, "cannot follow the leader of", event.tp, event.error.name)

    def _truncated(self, event: e.Truncated) -> None:
        self._together(INFO, "truncated", f"{event.tp} from {event.before} to {event.after}", event.reason)

    def _storage_failed(self, event: e.StorageFailed) -> None:
        if self._once(event, event.reason):
            self._log.error("%s: %s", event.tp, event.reason)

    def _went_offline(self, event: e.ReplicaWentOffline) -> None:
        self._together(ERROR, "cannot use its logs, and leaves to others:", f"{event.tp} ({event.reason})")

    def _came_online(self, event: e.ReplicaCameOnline) -> None:
        self._together(INFO, "can use its logs again:", event.tp)

    # ------------------------------------------------------------ in-sync replicas

    def _isr_proposed(self, event: e.IsrChangeProposed) -> None:
        self._proposed[event.tp] = event

    def _isr_changed(self, event: e.IsrChanged) -> None:
        proposed = self._proposed.pop(event.tp, None)
        if proposed is None:
            return
        for verb, brokers in (
            ("left", [b for b in proposed.before if b not in event.isr]),
            ("joined", [b for b in event.isr if b not in proposed.before]),
        ):
            if brokers:
                who = f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
                self._together(INFO, f"{who} {verb} the in-sync replicas of", event.tp, proposed.reason)

    def _isr_refused(self, event: e.IsrChangeRefused) -> None:
        self._together(DEBUG, "refused other in-sync replicas of", event.tp, event.error.name)

    # ------------------------------------------------------------ the controller

    def _controller_elected(self, event: e.ControllerElected) -> None:
        self._log.info("is the controller now, epoch %s", event.controller_epoch)

    def _controller_resigned(self, event: e.ControllerResigned) -> None:
        self._log.info("is not the controller any more: %s", event.reason)

    def _state_written(self, event: e.PartitionStateWritten) -> None:
        state, reason = event.state, event.reason
        leads = f"{event.tp} (broker {state.leader}, epoch {state.leader_epoch})"
        if reason == UNCLEAN_ELECTION:
            self._together(
                WARNING, "elected an out-of-sync leader of", leads, "records of others may be lost"
            )
        elif reason in ELECTIONS or reason.endswith(SHUTTING_DOWN):
            self._together(INFO, "elected a leader of", leads, reason)
        elif reason.endswith(OFFLINE) and state.leader == NO_LEADER:
            self._together(INFO, "nobody leads", event.tp, reason)
        elif reason.endswith(OFFLINE):
            self._together(INFO, "fewer replicas in sync of", f"{event.tp} ({_names(state.isr)})", reason)
        else:
            self._together(DEBUG, f"wrote the state of ({reason})", leads)

    def _election_failed(self, event: e.ElectionFailed) -> None:
        if self._once(event, event.reason):
            self._together(WARNING, "found nobody else to lead", event.tp, event.reason)

    def _topic_deletion_started(self, event: e.TopicDeletionStarted) -> None:
        self._log.debug("topic %s is being deleted", event.topic)

    def _topic_deleted(self, event: e.TopicDeleted) -> None:
        self._log.info("topic %s is deleted", event.topic)

    # ------------------------------------------------------------ this broker

    def _registered(self, event: e.BrokerRegistered) -> None:
        before, self._broker_epoch = self._broker_epoch, event.broker_epoch
        if before != event.broker_epoch:
            self._log.log(INFO if before else DEBUG, "registered, broker epoch %s", event.broker_epoch)

    def _control_refused(self, event: e.ControlRequestRefused) -> None:
        self._log.info("refused %s: %s", event.request, event.error.name)

    def _stray_found(self, event: e.StrayReplicaFound) -> None:
        if self._once(event, event.reason):
            self._together(WARNING, "left alone the log of", event.tp, event.reason)

    def _replica_deleted(self, event: e.ReplicaDeleted) -> None:
        for key in [key for key in self._said if key[1] == event.tp]:
            del self._said[key]
        self._together(DEBUG, "deleted the log of", event.tp)

    def _topic_configured(self, event: e.TopicConfigured) -> None:
        values = ", ".join(f"{name}={value}" for name, value in event.values.items()) or "defaults only"
        self._log.debug("settings of topic %s: %s", event.topic, values)

    def _log_recovered(self, event: p.LogRecovered) -> None:
        self._log.warning("recovered %s: %s", event.tp, event.finding)

    def _storage_recovered(self, event: p.StorageRecovered) -> None:
        if event.partitions:
            how = "as they were left" if event.clean_shutdown else "after a crash, scanned from their ends"
            seconds = event.duration_ms / 1000
            self._log.info("opened %s logs in %.2f s, %s", event.partitions, seconds, how)

    def _session_lost(self, event: p.KeeperSessionLost) -> None:
        self._log.warning("lost the session with the keeper (%s) and all that was registered", event.reason)

    def _reconnected(self, _event: p.KeeperReconnected) -> None:
        self._log.info("reached the keeper again, in time")

    def _shutdown_begun(self, event: p.ControlledShutdownBegun) -> None:
        self._log.info("%s: handing leadership over", event.reason)

    def _shutdown_finished(self, event: p.ControlledShutdownFinished) -> None:
        left = f", all but {event.leaders} partitions" if event.leaders else ""
        self._log.info("handed over in %s ms%s", event.duration_ms, left)


def _names(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers))


_WORDS: dict[type, Callable[[Narration, Any], None]] = {
    e.BecameLeader: Narration._became_leader,
    e.BecameFollower: Narration._became_follower,
    e.FollowerStalled: Narration._follower_stalled,
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
