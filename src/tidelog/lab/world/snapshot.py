"""The state of a simulated world as plain data, and what became of its clients' records.

``take`` says everything; ``judge`` looks at the logs alone, because a search judges thousands of worlds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidelog.core.inside import NO_PHASES, Phases, parked_requests, phases, remote_replicas, role_name
from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH, broker_path, state_path
from tidelog.core.types import NO_EPOCH, TopicPartition
from tidelog.lab.world.world import World
from tidelog.scenario.setup import TopicSetup
from tidelog.scenario.snapshot import (
    BrokerState,
    PartitionSnapshot,
    Record,
    ReplicaState,
    Snapshot,
    client_state,
    partition_snapshot,
)
from tidelog.scenario.verdict import RunVerdict, judge_end
from tidelog.storage.memory import MemoryBatch


def judge(world: World) -> RunVerdict:
    return judge_end(take(world, inside=False), world.clients.values())


def take(world: World, *, inside: bool = True) -> Snapshot:
    """``inside``: also what only brokers, keeper members and clients know."""
    tree = world.quorum.tree
    controller, epoch = tree.get(CONTROLLER), tree.get(CONTROLLER_EPOCH)
    live = tuple(process.id for process in world.processes if tree.get(broker_path(process.id)) is not None)
    return Snapshot(
        world.now,
        None if controller is None else int(controller.value),
        0 if epoch is None else epoch.value,
        live,
        tuple(
            _partition(world, TopicPartition(topic.name, 0), topic, inside=inside)
            for topic in world.setup.topics
        ),
        tuple(_broker(world, broker, registered=broker in live) for broker in world.broker_ids())
        if inside
        else (),
        world.quorum.states(world.network.linked) if inside else (),
        tuple(client_state(*named) for named in world.clients.items()) if inside else (),
    )


# ---------------------------------------------------------------- partitions


def _partition(world: World, tp: TopicPartition, topic: TopicSetup, *, inside: bool) -> PartitionSnapshot:
    found = _phases(world, tp, topic.hosts) if inside else NO_PHASES
    placed = world.topic_node(topic.name)
    assigned = topic.hosts if placed is None else placed.partitions[0]
    replicas = tuple(
        _replica(world, tp, broker, inside=inside) if broker in assigned else _absent(world, tp, broker)
        for broker in topic.hosts
    )
    node = world.quorum.tree.get(state_path(tp))
    # Leaders that write the state themselves do not know the version that it will have.
    state = None if node is None else replace(node.value, version=node.stat.version)
    return partition_snapshot(tp, state, replicas, found)


def _phases(world: World, tp: TopicPartition, assignment: tuple[int, ...]) -> Phases:
    """The states in the machines of the broker that the keeper names as controller."""
    node = world.quorum.tree.get(CONTROLLER)
    core = None if node is None else world.processes[node.value].core
    if core is None:
        return NO_PHASES
    return phases(core.controller, tp, tuple(world.processes[broker].id for broker in assignment))


def _absent(world: World, tp: TopicPartition, broker: int) -> ReplicaState:
    """A broker that has no replica now."""
    believes = _believes(world, tp, broker)
    return ReplicaState(broker, _process(world, broker), "-", 0, 0, (), (), believes, 0)


def _believes(world: World, tp: TopicPartition, broker: int) -> dict[str, Any] | None:
    core = world.processes[broker].core
    shown = None if core is None else core.metadata.shown(tp)
    if shown is None:
        return None
    return {"leader": shown.leader, "leader_epoch": shown.leader_epoch, "isr": shown.isr}


def _replica(world: World, tp: TopicPartition, broker: int, *, inside: bool) -> ReplicaState:
    process = world.processes[broker]
    log = process.storage.open(tp)
    replica = process.core.replicas.get(tp) if process.core is not None else None
    checkpoint = process.storage.checkpointed_high_watermark(tp)
    return ReplicaState(
        broker,
        _process(world, broker),
        role_name(replica),
        log.end_offset,
        checkpoint if replica is None else replica.high_watermark,
        tuple(map(_record, log.batches)),
        tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries),
        _believes(world, tp, broker),
        checkpoint,
        remote_replicas(replica) if inside else (),
        parked_requests(replica, _sender) if inside else (),
    )


def _record(batch: MemoryBatch) -> Record:
    return batch.base_offset, None if batch.leader_epoch == NO_EPOCH else batch.leader_epoch, batch.value


def _sender(reply_to: object) -> str:
    """Replies of this world go to (a node, a stamp)."""
    return str(reply_to[0]) if isinstance(reply_to, tuple) else str(reply_to)


# ---------------------------------------------------------------- brokers, keeper, clients


def _process(world: World, broker: int) -> str:
    return "down" if world.processes[broker].core is None else "paused" if broker in world.paused else "up"


def _broker(world: World, broker: int, *, registered: bool) -> BrokerState:
    core = world.processes[broker].core
    return BrokerState(
        broker,
        _process(world, broker),
        registered,
        core.controller.epoch if core is not None and core.controller.active else None,
        world.quorum.session_at.get(broker) if core is not None else None,
    )
