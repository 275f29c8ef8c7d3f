"""``kip101``: Kafka 0.11 to 1.1. A follower asks its leader where its own latest epoch ends, once.

Two gaps were found later, and the lab shows both. The answer does not name the epoch that was found, so after
two quick fail-overs a follower keeps records of an epoch the leader never had (KIP-279, KAFKA-6361). And
nothing fences a follower or a leader of an older epoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.core.generations.base import Generation, truncate_to_high_watermark
from tidelog.core.guards import EARLY_GUARDS
from tidelog.core.log_port import Batch, Log, OutOfOrder
from tidelog.core.messages import EpochEndResponse
from tidelog.core.reasons import TruncationRule
from tidelog.core.replication.epoch_cache import UNDEFINED_END, EpochEnd
from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, LeaderEpoch

if TYPE_CHECKING:
    from tidelog.core.replication.follower import FollowerRole
    from tidelog.core.replication.leader import LeaderRole


class SingleEpochTruncation(Generation):
    name = "kip101"
    summary = "Kafka 0.11–1.1: followers truncate to the end of their latest epoch, asked once"
    guards = EARLY_GUARDS
    isr_through_controller = False
    exempts_complete_followers = False
    exits_before_truncating = True
    elects_when_unclean_allowed = False
    takes_dead_replicas_offline = False
    forgets_dead_brokers_first = True
    tells_isr_without_leader = False
    followers_serve_consumers = False
    names_partitions_of_others = False

    def begin_leading(self, leader: LeaderRole) -> None:
        """The epoch enters the cache with its first record only: a leader that wrote nothing leaves no
        trace of having led (KAFKA-7415)."""

    def epoch_end(self, log: Log, asked: LeaderEpoch) -> EpochEnd:
        end = super().epoch_end(log, asked)
        if log.epochs.entries and asked < log.epochs.entries[0].epoch:
            return UNDEFINED_END
        return EpochEnd(NO_EPOCH, end.end_offset)

    def beyond_end(self, log: Log, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Out of order: in 1.1 this ends the follower's fetcher. After two quick fail-overs the logs may
        differ below the point of truncation (KIP-279)."""
        raise OutOfOrder

    def truncate(self, follower: FollowerRole, answer: EpochEndResponse) -> None:
        if answer.end_offset == UNKNOWN_OFFSET:
            truncate_to_high_watermark(follower)
            return
        follower.replica.truncate_to(
            answer.end_offset,
            TruncationRule.EPOCH_END_ON_LEADER,
            epoch=answer.asked_epoch,
            epoch_end=answer.end_offset,
        )
        follower.fetch()
