"""Topic deletion: mark it, remove it from all metadata, from every disk, then from the keeper.

The mark in ``/admin/delete_topics`` decides: after it the deletion cannot be undone. The controller removes
the topic from its state except ``ClusterState.deleting``, sends UpdateMetadata to every broker, and sends
StopReplica to those with a replica:

    online or offline ──▶ deletion started ──▶ deletion successful
                               │    ▲
    broker gone, or disk full  ▼    │ broker back, or asked again
                        deletion ineligible

The nodes are removed only when every replica is deleted. The last write removes the topic's node, its
settings and the mark together: so a new controller finds the mark and the assignment, and starts again. A
replica whose broker is down delays the deletion, because a broker that returns with its log would bring the
records back; until then the name is taken. Not so under ``elr``: there topic ids prevent it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelog.core import events
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.keeper_paths import DELETE_TOPICS, config_path, deletion_path, name_of, topic_path
from tidelog.core.keeper_port import Children, Create, Delete, Get, KeeperError, Subtree
from tidelog.core.keeper_tasks import Procedure, Task, Together
from tidelog.core.machine_phases import ReplicaPhase
from tidelog.core.messages import ControlResponse
from tidelog.core.topic_messages import DeleteTopicRequest, DeleteTopicResponse
from tidelog.core.types import BrokerId, TopicPartition
from tidelog.wire.errors import ErrorCode

NODES_PER_WRITE = 200
"""As for creation: the size of a transaction must be bounded."""
ATTEMPTS_MAX = 10
"""Attempts to remove the nodes of a topic while another process changes them. Then a later controller tries
again."""

# ---------------------------------------------------------------- marking


def delete_topic(machines: StateMachines, request: DeleteTopicRequest) -> Procedure[DeleteTopicResponse]:
    topic, cluster = request.topic, machines.cluster
    if topic in cluster.deleting:
        return DeleteTopicResponse(
            topic=topic, error=ErrorCode.NONE
        )  # a repeated request succeeds while the deletion is under way
    if topic not in cluster.topics:
        message = f"The topic '{topic}' does not exist."
        return DeleteTopicResponse(topic=topic, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message)
    if request.topic_id and request.topic_id != cluster.topic_ids.get(topic):
        message = f"No topic has the id {request.topic_id}."
        return DeleteTopicResponse(topic=topic, error=ErrorCode.UNKNOWN_TOPIC_ID, message=message)
    marked = yield from machines.fenced(Create(deletion_path(topic)))
    if marked.error not in (None, KeeperError.NODE_EXISTS):
        # Without a mark the next controller would treat a half-deleted topic as complete.
        return DeleteTopicResponse(
            topic=topic, error=ErrorCode.UNKNOWN_SERVER_ERROR, message="The keeper refused the mark."
        )
    _begin(machines, [topic])
    return DeleteTopicResponse(topic=topic, error=ErrorCode.NONE)


def heed_marks(machines: StateMachines) -> Task:
    """Topics were marked, by this controller or by a tool."""
    found = yield Children(DELETE_TOPICS, watch=True, values=False)
    marks = [name_of(path) for path in found.nodes]
    _begin(machines, [topic for topic in marks if topic in machines.cluster.topics])
    yield from _drop_idle_marks(machines, marks)


def adopt_marks(machines: StateMachines, marks: list[str]) -> Task:
    """A new controller finds unfinished deletions. It has sent nothing yet, and will not announce these
    topics."""
    for topic in marks:
        if topic in machines.cluster.topics:
            _withdraw(machines, topic)
    yield from _drop_idle_marks(machines, marks)


def _drop_idle_marks(machines: StateMachines, marks: list[str]) -> Task:
    """A mark without a topic would block its creation forever."""
    for topic in marks:
        if topic not in machines.cluster.deleting:
            yield from machines.fenced(Delete(deletion_path(topic)))


def _begin(machines: StateMachines, topics: list[str]) -> None:
    for topic in topics:
        _withdraw(machines, topic)
    machines.batch.send()
    erase_replicas(machines, topics)


def _withdraw(machines: StateMachines, topic: str) -> None:
    partitions = machines.remove_topic(topic)
    machines.cluster.deleting[topic] = {
        partition.tp.partition: partition.replicas for partition in partitions
    }
    machines.ctx.emit(events.TopicDeletionStarted(machines.ctx.broker, topic))


# ---------------------------------------------------------------- replicas


def erase_replicas(
    machines: StateMachines, topics: Iterable[str], among: Collection[BrokerId] | None = None
) -> None:
    """Ask live brokers, all or those ``among`` them, to delete their replicas of these topics."""
    cluster = machines.cluster
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for topic in list(topics):
        remaining = [
            (tp, broker)
            for tp, broker in _replicas(machines, topic)
            if (among is None or broker in among)
            and cluster.replicas.get((tp, broker)) is not ReplicaPhase.DELETION_SUCCESSFUL
        ]
        reachable = [replica for replica in remaining if replica[1] in cluster.live]
        machines.phases.replicas_become(reachable, ReplicaPhase.DELETION_STARTED)
        machines.phases.replicas_become(
            [replica for replica in remaining if replica[1] not in cluster.live],
            ReplicaPhase.DELETION_INELIGIBLE,
        )
        for tp, broker in reachable:
            by_broker.setdefault(broker, []).append(tp)
        _complete_if_erased(machines, topic)  # a topic without partitions is done at once
    for broker in sorted(by_broker):
        _erase(machines, broker, tuple(by_broker[broker]))


def brokers_that_failed(machines: StateMachines) -> list[BrokerId]:
    """Live brokers that failed to delete a replica."""
    cluster = machines.cluster
    failed = {
        broker
        for topic in cluster.deleting
        for tp, broker in _replicas(machines, topic)
        if broker in cluster.live and cluster.replicas.get((tp, broker)) is ReplicaPhase.DELETION_INELIGIBLE
    }
    return sorted(failed)


def _erase(machines: StateMachines, broker: BrokerId, tps: tuple[TopicPartition, ...]) -> None:
    def answered(broker: BrokerId, response: ControlResponse) -> None:
        refused = tps if response.error is not ErrorCode.NONE else response.partition_errors
        for phase, some in (
            (ReplicaPhase.DELETION_SUCCESSFUL, [tp for tp in tps if tp not in refused]),
            (ReplicaPhase.DELETION_INELIGIBLE, [tp for tp in tps if tp in refused]),
        ):
            machines.phases.replicas_become([(tp, broker) for tp in some], phase)
        for topic in dict.fromkeys(tp.topic for tp in tps):
            _complete_if_erased(machines, topic)

    machines.channels.delete_replica(broker, tps, answered)


def _replicas(machines: StateMachines, topic: str) -> Iterable[tuple[TopicPartition, BrokerId]]:
    for partition, replicas in machines.cluster.deleting.get(topic, {}).items():
        for broker in replicas:
            yield TopicPartition(topic, partition), broker


# ---------------------------------------------------------------- completion


def _complete_if_erased(machines: StateMachines, topic: str) -> None:
    if _is_erased(machines, topic):
        machines.submit(lambda: _complete(machines, topic))


def _is_erased(machines: StateMachines, topic: str) -> bool:
    """Under ``elr`` without the brokers that are down, as in KRaft. If one returns with its log, the id tells
    the log from that of a later topic of this name."""
    ctx, cluster = machines.ctx, machines.cluster
    live_only = ctx.generation.deletes_without_dead_brokers and ctx.guards.topic_ids
    return topic in cluster.deleting and all(
        cluster.replicas.get(replica) is ReplicaPhase.DELETION_SUCCESSFUL
        or (live_only and replica[1] not in cluster.live)
        for replica in _replicas(machines, topic)
    )


def _complete(machines: StateMachines, topic: str) -> Task:
    cluster = machines.cluster
    if not _is_erased(machines, topic):
        return  # queued twice, and already done
    for _ in range(ATTEMPTS_MAX):
        if (yield from _remove_nodes(machines, topic)):
            machines.phases.replicas_become(_replicas(machines, topic), ReplicaPhase.NON_EXISTENT)
            del cluster.deleting[topic]
            machines.ctx.emit(events.TopicDeleted(machines.ctx.broker, topic))
            return


def _remove_nodes(machines: StateMachines, topic: str) -> Procedure[bool]:
    """False after a conflict with another process, or with an earlier attempt whose answer was lost."""
    ends = (topic_path(topic), config_path(topic), deletion_path(topic))
    found = yield Together((Subtree(topic_path(topic)), *map(Get, ends)))
    below, *last = found.value
    doomed = [*reversed(below.nodes), *(path for path, node in zip(ends, last, strict=True) if node.ok)]
    while len(doomed) > NODES_PER_WRITE:
        batch, doomed = doomed[:NODES_PER_WRITE], doomed[NODES_PER_WRITE:]
        if not (yield from machines.fenced(*map(Delete, batch))).ok:
            return False
    return not doomed or (yield from machines.fenced(*map(Delete, doomed))).ok
