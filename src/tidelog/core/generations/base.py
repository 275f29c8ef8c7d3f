"""The interface of a generation of replication rules. Everything else is common to all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tidelog.core.guards import Guards
from tidelog.core.log_port import Batch, Log
from tidelog.core.messages import EpochEndResponse
from tidelog.core.reasons import TruncationRule
from tidelog.core.replication.epoch_cache import EpochEnd
from tidelog.core.types import (
    NO_EPOCH,
    UNKNOWN_OFFSET,
    BrokerId,
    InvariantViolation,
    LeaderEpoch,
    Millis,
    Offset,
)

if TYPE_CHECKING:
    from tidelog.core.replication.follower import FollowerRole
    from tidelog.core.replication.leader import LeaderRole


class Generation(ABC):
    name: ClassVar[str]
    summary: ClassVar[str]
    guards: ClassVar[Guards]

    stamps_epochs: ClassVar[bool] = True
    """Batches carry the epoch of the leader that appended them (message format 2, 0.11)."""
    counts_recently_caught_up: ClassVar[bool] = True
    """The high watermark waits for replicas outside the ISR that were caught up a moment ago (0.10.2)."""
    isr_through_controller: ClassVar[bool] = True
    """ISR changes go through the controller (KIP-497, 2.7), not directly to the keeper."""
    advances_on_confirmed_isr: ClassVar[bool] = True
    """A confirmed ISR change recomputes the high watermark. 2.7 does not: after a shrink it waits for the
    next append or fetch (KAFKA-13091)."""
    exempts_complete_followers: ClassVar[bool] = True
    """A silent follower whose log ends where the leader's ends stays in the ISR (2.1)."""
    counts_previous_fetch: ClassVar[bool] = True
    """A follower was caught up at its previous fetch if it has reached the leader's end of that time (0.10.2,
    KAFKA-4384)."""
    lag_counts_from_epoch: ClassVar[bool] = True
    """The lag of an in-sync follower counts from the start of the leader's epoch, at the earliest (0.10.2).
    Before, it counted from the time when the leader's process first had the partition."""
    isr_checks_per_lag_time: ClassVar[int] = 2
    """How often the ISR is checked in ``replica.lag.time.max.ms``."""
    truncates_before_stopping: ClassVar[bool] = False
    """A leader that shuts down truncates as a follower would, although it does not follow the next leader."""
    exits_before_truncating: ClassVar[bool] = False
    """A follower whose log is longer than the leader's stops its broker if the topic forbids unclean
    elections (until 2.0, KAFKA-7414)."""
    elects_when_unclean_allowed: ClassVar[bool] = True
    """Permission for unclean elections elects at once (2.1); before, at the next start or failure of a broker
    or of the controller. Kafka 4 looks at intervals (``controller/partition_changes.py``)."""
    empties_isr_if_unclean: ClassVar[bool] = False
    """The last in-sync replica leaves the ISR when it dies, if the topic allows unclean elections (until
    1.0)."""
    takes_dead_replicas_offline: ClassVar[bool] = True
    """A new controller removes the replicas of dead brokers from their ISRs (2.0, KAFKA-3143)."""
    informs_before_roles: ClassVar[bool] = True
    """A new controller sends UpdateMetadata before LeaderAndIsr (0.10.2). Before, a broker that knew no live
    brokers ignored its role as a follower."""
    is_started_again: ClassVar[bool] = False
    """A broker whose old registration is still there is started again some time after it has gone: a real
    one exits, and its supervisor starts it. Otherwise it registers at once, which is the same, sooner. Not so
    without ``informs_before_roles``: a new controller would meet it before it knows any broker."""
    forgets_dead_brokers_first: ClassVar[bool] = False
    """Of brokers that came and brokers that died the controller handles the new ones first. Before 2.2 the
    dead ones are no longer alive then; later they are, until their turn."""
    tells_isr_without_leader: ClassVar[bool] = True
    """Metadata names the ISR of a partition without a leader (2.4)."""
    names_partitions_of_others: ClassVar[bool] = True
    """A broker without a replica of the partition answers NOT_LEADER_OR_FOLLOWER if it knows the partition.
    Before 2.0 it answers UNKNOWN_TOPIC_OR_PARTITION."""
    proposes_sorted_isr: ClassVar[bool] = False
    """A leader names the members of the ISR it wants by number, not in the order in which they came (Kafka
    4, where the ISR is a hash set)."""
    followers_serve_consumers: ClassVar[bool] = True
    """A follower answers consumers of Fetch version 11, up to its own high watermark (2.4, KIP-392)."""
    names_only_insync_replicas: ClassVar[bool] = False
    """A leader that sends a consumer to a nearer replica chooses one that is in sync (3.x); before, any that
    has what the consumer asks for."""
    deletes_without_dead_brokers: ClassVar[bool] = False
    """The deletion of a topic does not wait for brokers that are down (KRaft)."""
    tracks_eligible_leaders: ClassVar[bool] = False
    """The controller of Kafka 4: it changes a partition in one write, and only a change of the leader raises
    the leader epoch. It tracks eligible leader replicas (KIP-966)."""
    commits_by_isr: ClassVar[bool] = True
    """Records are committed when every in-sync replica has them, and leaders come from the ISR; otherwise a
    majority decides."""

    # ------------------------------------------------------------ the leader's side

    def begin_leading(self, leader: LeaderRole) -> None:
        """Called once at the start of each epoch of leadership, before the high watermark is recomputed."""
        log = leader.log
        log.epochs.assign(leader.epoch, log.end_offset)
        log.epochs_changed()

    def committed_offset(self, leader: LeaderRole, now: Millis) -> Offset:
        """The smallest log end among the ISR and recently caught-up replicas.

        Counting the recently caught up as well keeps the ISR from losing members that were about to stay.
        """
        committed = leader.log.end_offset
        guards = leader.ctx.guards
        isr = leader.maximal_isr
        lag_max = leader.ctx.config.replica_lag_time_max_ms
        caught_up_since = now - lag_max if self.counts_recently_caught_up else inf
        for broker, follower in leader.followers.items():
            end = follower.log_end_offset
            if end < committed and (
                broker in isr
                or (follower.last_caught_up >= caught_up_since and self.may_join_isr(leader, broker))
            ):
                if end == UNKNOWN_OFFSET and not guards.count_unknown_followers:
                    continue
                committed = end
        return committed

    def may_join_isr(self, leader: LeaderRole, broker: BrokerId) -> bool:
        """Whether the high watermark waits for a caught-up replica outside the ISR."""
        return True

    def insync_replicas_needed(self, configured: int, replicas: int) -> int:
        """How many in-sync replicas acks=all needs, for a partition with that many replicas."""
        return configured

    def epoch_end(self, log: Log, asked: LeaderEpoch) -> EpochEnd:
        return log.epochs.end_offset_for(asked, log.end_offset)

    # ------------------------------------------------------------ the follower's side

    def begin_following(self, follower: FollowerRole) -> None:
        """A leader epoch begins: find the offset to truncate to."""
        latest = follower.log.epochs.latest_epoch
        if latest == NO_EPOCH:
            truncate_to_high_watermark(follower)
        else:
            follower.ask_epoch_end(latest)

    def beyond_end(self, log: Log, batches: Sequence[Batch]) -> Sequence[Batch]:
        """What to append of a leader's answer whose first batch begins below the end of this log. An answer
        has whole batches, so that is possible once the logs differ in where a batch begins; here they never
        do."""
        first = batches[0].base_offset
        raise InvariantViolation(f"offset {first} was fetched by a follower that ends at {log.end_offset}")

    @abstractmethod
    def truncate(self, follower: FollowerRole, answer: EpochEndResponse) -> None:
        """The leader answered where an epoch ends: truncate, then ask again or fetch."""


def truncate_to_high_watermark(follower: FollowerRole) -> None:
    """The rule of 0.10, and the last resort of later rules when no epoch is known."""
    replica = follower.replica
    replica.truncate_to(replica.high_watermark, TruncationRule.OWN_HIGH_WATERMARK)
    follower.fetch()
