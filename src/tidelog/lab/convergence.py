"""Has the cluster recovered? Every replica in sync to the last record, and aware of it."""

from __future__ import annotations

from tidelog.core.leader import LeaderRole
from tidelog.core.replica import Replica
from tidelog.core.types import NO_LEADER, Millis, TopicPartition
from tidelog.lab.world import World


def is_converged(world: World) -> bool:
    return all(_partition_converged(world, TopicPartition(topic.name, 0)) for topic in world.setup.topics)


def _partition_converged(world: World, tp: TopicPartition) -> bool:
    state = world.partition_state(tp)
    if state is None or state.leader == NO_LEADER:
        return False
    leader = _replica(world, state.leader, tp)
    if leader is None or not isinstance(leader.role, LeaderRole):
        return False
    if world.setup.rules.commits_by_isr and len(state.isr) != len(leader.replicas):
        return False
    end = leader.log.end_offset
    for broker in leader.replicas:
        replica = _replica(world, broker, tp)
        if replica is None or replica.leader_epoch != state.leader_epoch:
            return False
        if replica.log.end_offset != end or replica.high_watermark != end:
            return False
    return True


def _replica(world: World, broker: int, tp: TopicPartition) -> Replica | None:
    core = world.processes[broker].core
    return core.replicas.get(tp) if core is not None else None


def converge(world: World, limit: Millis) -> bool:
    """Run fairly, looking only when nothing is in flight, until the cluster has recovered."""
    until = world.now + limit
    while True:
        world.settle()
        if is_converged(world):
            return True
        timer = world.next_timer
        if timer is None or timer > until:
            world.now = until
            return False
        world.tick()
