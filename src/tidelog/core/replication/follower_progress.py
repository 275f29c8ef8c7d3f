"""What a leader knows of one follower: how far its log reaches, and when it was last caught up."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.types import NO_BROKER_EPOCH, UNKNOWN_OFFSET, BrokerEpoch, Millis, Offset

NEVER: Millis = -(10**15)
UNREACHED: Offset = 1 << 63
"""Beyond the end of every log."""


@dataclass(slots=True)
class FollowerProgress:
    """The leader's state of one follower, learnt only from its fetches."""

    log_end_offset: Offset = UNKNOWN_OFFSET
    last_caught_up: Millis = NEVER
    last_fetch: Millis = NEVER
    leader_end_at_last_fetch: Offset = UNKNOWN_OFFSET
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET

    def fetched(self, offset: Offset, leader_end: Offset, now: Millis, *, previous_counts: bool) -> None:
        """Record a fetch. The follower is caught up *now* if it reached the leader's log end; it was caught
        up at the previous *fetch* if it reached the log end of that time: under steady load a follower is
        always a little behind."""
        if offset >= leader_end:
            self.last_caught_up = now
        elif (
            previous_counts
            and offset >= self.leader_end_at_last_fetch
            and self.last_fetch > self.last_caught_up
        ):
            self.last_caught_up = self.last_fetch
        self.log_end_offset = offset
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch = now

    def lags(self, config: BrokerConfig, leader_end: Offset, now: Millis, *, complete_exempt: bool) -> bool:
        """Whether the follower must leave the ISR. ``complete_exempt``: not if it has the whole log."""
        if config.isr_rule is IsrRule.FETCH_TIME:
            return now - self.last_fetch > config.replica_lag_time_max_ms
        if config.isr_rule is IsrRule.MESSAGE_LAG:
            if self.log_end_offset == UNKNOWN_OFFSET:
                return False  # it has not had time to fetch yet
            return leader_end - self.log_end_offset > config.replica_lag_max_messages
        if complete_exempt and self.log_end_offset == leader_end:
            return False
        return now - self.last_caught_up > config.replica_lag_time_max_ms
