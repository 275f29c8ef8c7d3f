"""What a leader knows of one follower: how far its log reaches, and when it was last caught up."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.types import NO_BROKER_EPOCH, UNKNOWN_OFFSET, BrokerEpoch, Millis, Offset

NEVER: Millis = -(10**15)


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
