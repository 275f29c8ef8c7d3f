"""The state of a simulated world as plain data, and what became of its clients' records."""

from __future__ import annotations

from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import NO_EPOCH, TopicPartition
from tidelog.lab.world.world import World
from tidelog.scenario.snapshot import PartitionSnapshot, Record, ReplicaState, Snapshot
from tidelog.scenario.verdict import Verdict, judge_end
from tidelog.storage.memory import MemoryBatch


def take(world: World) -> Snapshot:
    tree = world.quorum.tree
    controller, epoch = tree.get(CONTROLLER), tree.get(CONTROLLER_EPOCH)
    live = tuple(b for b in world.broker_ids() if tree.get(f"/brokers/ids/{b}") is not None)
    return Snapshot(
        world.now,
        None if controller is None else int(controller.value),
        0 if epoch is None else epoch.value,
        live,
        tuple(
            _partition(world, TopicPartition(topic.name, 0), topic.replicas) for topic in world.setup.topics
        ),
    )


def _partition(world: World, tp: TopicPartition, assignment: tuple[int, ...]) -> PartitionSnapshot:
    state = world.partition_state(tp)
    return PartitionSnapshot(
        tp.topic,
        tp.partition,
        -1 if state is None else state.leader,
        -1 if state is None else state.leader_epoch,
        () if state is None else state.isr,
        tuple(_replica(world, tp, broker) for broker in assignment),
    )


def _replica(world: World, tp: TopicPartition, broker: int) -> ReplicaState:
    process = world.processes[broker]
    log = process.storage.open(tp)
    replica = process.core.replicas.get(tp) if process.core is not None else None
    role = replica.role if replica is not None else None
    name = "leader" if isinstance(role, LeaderRole) else "follower" if isinstance(role, FollowerRole) else "-"
    known = process.core.metadata.get(tp) if process.core is not None else None
    believes = None
    if known is not None:
        believes = {
            "leader": known.state.leader,
            "leader_epoch": known.state.leader_epoch,
            "isr": known.state.isr,
        }
    return ReplicaState(
        broker,
        "down" if process.core is None else "paused" if broker in world.paused else "up",
        name,
        log.end_offset,
        process.storage.checkpointed_high_watermark(tp) if replica is None else replica.high_watermark,
        tuple(map(_record, log.batches)),
        tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries),
        believes,
    )


def _record(batch: MemoryBatch) -> Record:
    return batch.base_offset, None if batch.leader_epoch == NO_EPOCH else batch.leader_epoch, batch.value


def judge(world: World) -> Verdict:
    return judge_end(take(world), world.clients.values())
