"""``hw``: Kafka up to 0.10. A follower that starts or changes its leader truncates to its high watermark.

The watermark of a follower lags one fetch round behind the leader's, so the tail that is cut may hold
acknowledged records. KIP-101 describes how that loses records (scenario ``hw-loss``) and how it leaves two
replicas with different records at one offset (``hw-divergence``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.core.generations.base import Generation, truncate_to_high_watermark
from tidelog.core.guards import EARLY_GUARDS
from tidelog.core.log_port import Batch, Log
from tidelog.core.messages import EpochEndResponse
from tidelog.core.types import InvariantViolation

if TYPE_CHECKING:
    from tidelog.core.replication.follower import FollowerRole
    from tidelog.core.replication.leader import LeaderRole


class HighWatermarkTruncation(Generation):
    name = "hw"
    summary = "Kafka ≤ 0.10: followers truncate to their own high watermark"
    guards = EARLY_GUARDS
    stamps_epochs = False
    counts_recently_caught_up = False
    isr_through_controller = False
    exempts_complete_followers = False
    counts_previous_fetch = False
    lag_counts_from_epoch = False
    isr_checks_per_lag_time = 1
    truncates_before_stopping = True
    exits_before_truncating = True
    elects_when_unclean_allowed = False
    informs_before_roles = False
    empties_isr_if_unclean = True
    takes_dead_replicas_offline = False
    is_started_again = True
    forgets_dead_brokers_first = True
    tells_isr_without_leader = False
    followers_serve_consumers = False
    names_partitions_of_others = False

    def begin_leading(self, leader: LeaderRole) -> None:
        pass

    def begin_following(self, follower: FollowerRole) -> None:
        truncate_to_high_watermark(follower)

    def beyond_end(self, log: Log, batches: Sequence[Batch]) -> Sequence[Batch]:
        """0.10 stores messages one by one, and appends of compressed ones what lies beyond its end: the
        follower keeps its own records below, which may be others than the leader's."""
        end = log.end_offset
        return [
            log.rest_of(batch, end) if batch.base_offset < end else batch
            for batch in batches
            if batch.next_offset > end
        ]

    def truncate(self, follower: FollowerRole, answer: EpochEndResponse) -> None:
        raise InvariantViolation("the hw rules never ask for the end of an epoch")
