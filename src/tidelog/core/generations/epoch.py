"""``epoch``: Kafka 2.7. Leader epochs with KIP-101, KIP-279 and KIP-320.

A follower asks where its latest epoch ends on the leader. The answer names the epoch the leader found, so a
follower that does not know that epoch steps back to an older one and asks again, until both logs agree on
an epoch; requests and answers of another epoch than the current one are refused on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.generations.base import Generation, truncate_to_high_watermark
from tidelog.core.guards import ALL_GUARDS
from tidelog.core.messages import EpochEndResponse
from tidelog.core.reasons import TruncationRule
from tidelog.core.replication.epoch_cache import UNDEFINED_END
from tidelog.core.types import UNKNOWN_OFFSET

if TYPE_CHECKING:
    from tidelog.core.replication.follower import FollowerRole


class LeaderEpochs(Generation):
    name = "epoch"
    summary = "Kafka 2.7: leader epochs (KIP-101, 279, 320)"
    guards = ALL_GUARDS
    advances_on_confirmed_isr = False

    def truncate(self, follower: FollowerRole, answer: EpochEndResponse) -> None:
        replica, log = follower.replica, follower.log
        if answer.end_offset == UNKNOWN_OFFSET:
            # The leader knows nothing about this epoch: only committed records are certain.
            truncate_to_high_watermark(follower)
            return
        own = log.epochs.end_offset_for(answer.epoch, log.end_offset)
        if own == UNDEFINED_END:
            # This log has no epoch of that age. The leader's epoch is older than the requested one, so all
            # records here beyond its end are newer than the leader's.
            end, rule = answer.end_offset, TruncationRule.EPOCH_END_ON_LEADER
            replica.truncate_to(end, rule, epoch=answer.epoch, epoch_end=end)
            follower.fetch()
        elif own.epoch == answer.epoch:
            end = min(own.end_offset, answer.end_offset)
            here = end == own.end_offset
            rule = TruncationRule.EPOCH_END_HERE if here else TruncationRule.EPOCH_END_ON_LEADER
            replica.truncate_to(end, rule, epoch=answer.epoch, epoch_end=end)
            follower.fetch()
        else:
            # This log does not have the epoch that the leader found. Drop everything after the last older
            # one, and ask again.
            replica.truncate_to(
                own.end_offset, TruncationRule.EPOCH_UNKNOWN, epoch=answer.epoch, own_epoch=own.epoch
            )
            self.begin_following(follower)
