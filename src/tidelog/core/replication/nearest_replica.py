"""Where a consumer should read: at the leader, or at a follower in its own rack (KIP-392).

The rule of Kafka's ``RackAwareReplicaSelector``: the leader, if it is in the consumer's rack. Otherwise the
follower there that is furthest, of those that have the offset. If there is none, the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.config import ReplicaSelector
from tidelog.core.messages import FetchRequest
from tidelog.core.types import NO_LEADER, BrokerId

if TYPE_CHECKING:
    from tidelog.core.replication.leader import LeaderRole


def nearest_replica(leader: LeaderRole, request: FetchRequest) -> BrokerId:
    """The follower that this consumer is to ask; ``NO_LEADER`` if it is the leader that it asks already."""
    ctx, rack, offset = leader.ctx, request.rack, request.offset
    if not rack or ctx.config.replica_selector is not ReplicaSelector.RACK_AWARE:
        return NO_LEADER
    if not ctx.generation.followers_serve_consumers or ctx.rack_of(ctx.broker) == rack:
        return NO_LEADER
    near = [
        (follower.log_end_offset, follower.last_caught_up, broker)
        for broker, follower in leader.followers.items()
        if ctx.rack_of(broker) == rack
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (broker in leader.isr or not ctx.generation.names_only_insync_replicas)
    ]
    return max(near)[-1] if near else NO_LEADER
