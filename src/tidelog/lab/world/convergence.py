"""Has the cluster recovered? Every replica in sync to the last record, and aware of it."""

from __future__ import annotations

from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import NO_LEADER, Millis, TopicPartition
from tidelog.lab.world.world import World


def is_converged(world: World) -> bool:
    return all(_partition_converged(world, tp) for tp in world.partitions)


def _partition_converged(world: World, tp: TopicPartition) -> bool:
    state = world.partition_state(tp)
    if state is None or state.leader == NO_LEADER:
        return False
    cores = [process.core for process in world.processes]
    core = cores[state.leader]
    leader = None if core is None else core.replicas.get(tp)
    if leader is None or not isinstance(leader.role, LeaderRole):
        return False
    if len(state.isr) != len(leader.replicas) and world.setup.rules.commits_by_isr:
        return False
    epoch, end = state.leader_epoch, leader.log.end_offset
    for broker in leader.replicas:
        core = cores[broker]
        replica = None if core is None else core.replicas.get(tp)
        if replica is None or replica.leader_epoch != epoch:
            return False
        if replica.log.end_offset != end or replica.high_watermark != end:
            return False
    return True


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
