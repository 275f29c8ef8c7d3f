"""The state of a simulated world as plain data, and what became of its clients' records.

``take`` says everything; ``judge`` looks at the logs alone, because a search judges thousands of worlds.
"""

from __future__ import annotations

from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH, broker_path
from tidelog.core.messages import CONSUMER
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.follower_progress import NEVER
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, TopicPartition
from tidelog.lab.world.world import World
from tidelog.scenario.snapshot import (
    BrokerState,
    ClientState,
    KeeperMember,
    ParkedRequest,
    PartitionSnapshot,
    Record,
    RemoteReplica,
    ReplicaState,
    Snapshot,
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
            _partition(world, TopicPartition(topic.name, 0), topic.replicas, inside=inside)
            for topic in world.setup.topics
        ),
        tuple(_broker(world, broker, registered=broker in live) for broker in world.broker_ids())
        if inside
        else (),
        _keeper(world) if inside else (),
        tuple(_client(world, name) for name in world.clients) if inside else (),
    )


# ---------------------------------------------------------------- partitions


def _partition(
    world: World, tp: TopicPartition, assignment: tuple[int, ...], *, inside: bool
) -> PartitionSnapshot:
    phases = _phases(world, tp, assignment) if inside else ("", ())
    replicas = tuple(_replica(world, tp, broker, inside=inside) for broker in assignment)
    return partition_snapshot(tp, world.partition_state(tp), replicas, phases)


def _phases(
    world: World, tp: TopicPartition, assignment: tuple[int, ...]
) -> tuple[str, tuple[tuple[int, str], ...]]:
    """The states in the machines of the broker that the keeper names as controller."""
    node = world.quorum.tree.get(CONTROLLER)
    core = None if node is None else world.processes[node.value].core
    machines = None if core is None else core.controller.machines
    if machines is None or tp not in machines.cluster.partitions:
        return "", ()
    known = machines.cluster.replicas
    ids = [world.processes[broker].id for broker in assignment]
    phases = tuple((broker, known[tp, broker].value) for broker in ids if (tp, broker) in known)
    return machines.cluster.partitions[tp].value, phases


def _replica(world: World, tp: TopicPartition, broker: int, *, inside: bool) -> ReplicaState:
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
    checkpoint = process.storage.checkpointed_high_watermark(tp)
    return ReplicaState(
        broker,
        _process(world, broker),
        name,
        log.end_offset,
        checkpoint if replica is None else replica.high_watermark,
        tuple(map(_record, log.batches)),
        tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries),
        believes,
        checkpoint,
        _remote(replica) if inside else (),
        _parked(replica) if inside else (),
    )


def _record(batch: MemoryBatch) -> Record:
    return batch.base_offset, None if batch.leader_epoch == NO_EPOCH else batch.leader_epoch, batch.value


def _remote(replica: Replica | None) -> tuple[RemoteReplica, ...]:
    role = replica.role if replica is not None else None
    if not isinstance(role, LeaderRole):
        return ()
    return tuple(
        RemoteReplica(
            broker,
            None if follower.log_end_offset == UNKNOWN_OFFSET else follower.log_end_offset,
            None if follower.last_caught_up == NEVER else follower.last_caught_up,
        )
        for broker, follower in role.followers.items()
    )


def _parked(replica: Replica | None) -> tuple[ParkedRequest, ...]:
    role = replica.role if replica is not None else None
    if not isinstance(role, LeaderRole):
        return ()
    produces, fetches = role.parked
    found = [
        ParkedRequest("produce", _sender(produce.reply_to), produce.required, produce.deadline)
        for produce in produces
    ]
    for reply_to, fetch in fetches.items():
        asker = fetch.request.replica
        sender = _sender(reply_to) if asker == CONSUMER else str(asker)
        found.append(ParkedRequest("fetch", sender, fetch.request.offset, fetch.deadline))
    return tuple(found)


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


def _keeper(world: World) -> tuple[KeeperMember, ...]:
    quorum = world.quorum
    serving = quorum.serving(world.network.linked)
    return tuple(
        KeeperMember(member, quorum.running[member], member in serving, member == quorum.leader)
        for member in quorum.members
    )


def _client(world: World, name: str) -> ClientState:
    leaders = world.clients[name].metadata.leaders
    return ClientState(name, tuple((*tp, leader, epoch) for tp, (leader, epoch) in leaders.items()))
