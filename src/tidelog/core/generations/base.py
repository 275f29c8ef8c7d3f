"""The interface of a generation of replication rules. Everything else is common to all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tidelog.core.events import TruncationRule
from tidelog.core.guards import Guards
from tidelog.core.log_port import Log
from tidelog.core.messages import EpochEndResponse
from tidelog.core.replication.epoch_cache import EpochEnd
from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Millis, Offset

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
            if end < committed and (broker in isr or follower.last_caught_up >= caught_up_since):
                if end == UNKNOWN_OFFSET and not guards.count_unknown_followers:
                    continue
                committed = end
        return committed

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

    @abstractmethod
    def truncate(self, follower: FollowerRole, answer: EpochEndResponse) -> None:
        """The leader answered where an epoch ends: truncate, then ask again or fetch."""


def truncate_to_high_watermark(follower: FollowerRole) -> None:
    """The rule of 0.10, and the last resort of later rules when no epoch is known."""
    replica = follower.replica
    replica.truncate_to(replica.high_watermark, TruncationRule.OWN_HIGH_WATERMARK)
    follower.fetch()
