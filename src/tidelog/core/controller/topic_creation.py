"""Topic creation: names, numbers, assignments, and the writes to the keeper.

Each procedure checks everything first and writes afterwards. A topic is one transaction: its settings and its
assignment appear together, fenced by the controller epoch. Its partitions are brought online right away, not
when the watch on the topics fires. Topics found in the keeper that this controller did not create (a tool
wrote them, or an earlier controller died half-way) are handled in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog.core.assignments import Assignment, TopicNode
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.placement import broker_round, place_replicas
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.keeper_paths import TOPICS, config_path, topic_path
from tidelog.core.keeper_port import Create, Get, KeeperError, Result, SetValue, StoredNode, Subtree
from tidelog.core.keeper_tasks import Procedure, Task, Together
from tidelog.core.machine_phases import ReplicaPhase
from tidelog.core.topic_messages import (
    BROKER_DEFAULT,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
)
from tidelog.core.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from tidelog.wire.errors import ErrorCode

TOPIC_NAME_LENGTH_MAX = 249
"""A folder name is the topic, a dash and the partition, with at most 255 characters."""
PARTITIONS_PER_REQUEST_MAX = 10_000
"""As in Kafka since 4.0. The placement is computed in one step in memory, so its size must be bounded."""
REPLICAS_MAX = 32_767
"""Maximum replicas of a partition: a replication factor is a 16-bit number."""
REPLICAS_SHOWN_MAX = 10
TOPICS_PER_WRITE = 100

NO_PARTITIONS = TopicNode({})
"""The node of a topic that a tool has made without a value."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicRefused(NamedTuple):
    error: ErrorCode
    message: str


TOO_MANY_PARTITIONS = TopicRefused(
    ErrorCode.POLICY_VIOLATION,
    f"Excessively large number of partitions per request: at most {PARTITIONS_PER_REQUEST_MAX}.",
)
_TOO_LARGE = TopicRefused(
    ErrorCode.POLICY_VIOLATION, "The list of the topic's replicas is larger than the keeper accepts."
)


# ---------------------------------------------------------------- creating a topic


def create_topic(machines: StateMachines, request: CreateTopicRequest) -> Procedure[CreateTopicResponse]:
    topic = request.topic
    plan = _name_refusal(topic, machines.cluster) or _planned(machines, request)
    if isinstance(plan, TopicRefused):
        return CreateTopicResponse(topic=topic, error=plan.error, message=plan.message)
    if not request.validate_only:
        node = TopicNode(plan, topic_id=_new_topic_id(machines))
        refusal = yield from _write_topic(machines, topic, node, request.config)
        if refusal is not None:
            return CreateTopicResponse(topic=topic, error=refusal.error, message=refusal.message)
        yield from machines.create_partitions(machines.cluster.add_partitions(topic, node))
    return CreateTopicResponse(
        topic=topic,
        error=ErrorCode.NONE,
        partitions=len(plan),
        replication_factor=len(plan[0]),
        topic_id=machines.cluster.topic_ids.get(topic, NO_TOPIC_ID),
    )


def _new_topic_id(machines: StateMachines) -> TopicId:
    if not machines.ctx.guards.topic_ids:
        return NO_TOPIC_ID
    machines.cluster.topic_ids_given += 1
    return machines.ctx.new_topic_id(machines.channels.controller_epoch, machines.cluster.topic_ids_given)


def _write_topic(
    machines: StateMachines, topic: str, node: TopicNode, config: dict[str, str]
) -> Procedure[TopicRefused | None]:
    """Refused if the topic exists already, unless this very write created it."""
    path, settings = topic_path(topic), config_path(topic)
    result = yield from machines.fenced(Create(settings, config), Create(path, node))
    if not result.ok and result.value == 0:
        # Settings without a topic: written by a tool, or by this very write if its answer was lost.
        result = yield from machines.fenced(SetValue(settings, config), Create(path, node))
    if result.ok:
        return None
    if result.error is KeeperError.TOO_LARGE:
        return _TOO_LARGE
    found = yield Get(path)
    if not found.ok:
        return TopicRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "The keeper refused the topic.")
    return None if found.value.value == node else _exists(topic)


def _name_refusal(topic: str, cluster: ClusterState) -> TopicRefused | None:
    wrong = illegal_name(topic)
    if wrong is not None:
        return TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if topic in cluster.deleting:
        return TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion.")
    if topic in cluster.topics:
        return _exists(topic)
    if "." in topic or "_" in topic:
        # In metric names a dot becomes an underscore, so the two topics could not be distinguished.
        same = topic.replace(".", "_")
        rivals = [other for other in (*cluster.topics, *cluster.deleting) if other.replace(".", "_") == same]
        if rivals:
            message = f"Topic '{topic}' collides with existing topics: {', '.join(rivals)}"
            return TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    return None


def illegal_name(topic: str) -> str | None:
    """What is wrong with a topic's name, or None."""
    if not topic:
        return "Topic name is illegal, it can't be empty"
    if topic in (".", ".."):
        return 'Topic name cannot be "." or ".."'
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is illegal, it can't be longer than {TOPIC_NAME_LENGTH_MAX} characters, "
            f"topic name: {topic[:TOPIC_NAME_LENGTH_MAX]}..."
        )
    if _LEGAL_NAME.fullmatch(topic) is None:
        return (
            f'Topic name "{topic}" is illegal, it contains a character other than ASCII alphanumerics, '
            "'.', '_' and '-'"
        )
    return None


def _exists(topic: str) -> TopicRefused:
    return TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")


# ---------------------------------------------------------------- assignments


def _planned(machines: StateMachines, request: CreateTopicRequest) -> Assignment | TopicRefused:
    config, cluster = machines.ctx.config, machines.cluster
    if request.assignment is not None:
        if (request.partitions, request.replication_factor) != (BROKER_DEFAULT, BROKER_DEFAULT):
            return TopicRefused(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be "
                "used at the same time.",
            )
        if len(request.assignment) > PARTITIONS_PER_REQUEST_MAX:
            return TOO_MANY_PARTITIONS
        return _assignment_refusal(request.assignment) or dict(sorted(request.assignment.items()))
    partitions, factor = request.partitions, request.replication_factor
    if partitions == BROKER_DEFAULT:
        partitions = config.num_partitions
    if factor == BROKER_DEFAULT:
        factor = config.default_replication_factor
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        return TOO_MANY_PARTITIONS
    if partitions <= 0:
        return TopicRefused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if factor <= 0:
        return TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > len(cluster.live):
        return TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {factor} larger than available brokers: {len(cluster.live)}.",
        )
    # The next topic continues where the last one ended, so that many small topics spread like one large
    # topic.
    return place_replicas(_racks(machines), range(partitions), factor, start=len(cluster.assignments))


def _racks(machines: StateMachines) -> dict[BrokerId, str | None]:
    # The brokers of a simulation register no endpoint.
    endpoints = machines.channels.endpoints.items()
    return {broker: getattr(endpoint, "rack", None) for broker, endpoint in endpoints}


def _assignment_refusal(assignment: Assignment) -> TopicRefused | None:
    """A manual assignment may name brokers that are down, as in Kafka, but must be consistent."""
    if sorted(assignment) != list(range(len(assignment))) or not assignment:
        return _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return _replicas_refusal(assignment.values(), len(assignment[0]))


def _replicas_refusal(lists: Iterable[tuple[BrokerId, ...]], factor: int) -> TopicRefused | None:
    if factor > REPLICAS_MAX:
        return _bad_assignment(f"A partition may have {REPLICAS_MAX} replicas, not {factor}")
    for replicas in lists:
        if not replicas or min(replicas) < 0:
            return _bad_assignment(
                f"a partition needs replicas on existing brokers, not on [{_shown(replicas)}]"
            )
        if len(set(replicas)) != len(replicas):
            return _bad_assignment(f"Duplicate replica assignment found: [{_shown(replicas)}]")
        if len(replicas) != factor:
            return _bad_assignment("All partitions should have the same number of replicas")
    return None


def _shown(brokers: Sequence[BrokerId]) -> str:
    """A short form for error messages: a client may have named thousands."""
    first = ", ".join(map(str, brokers[:REPLICAS_SHOWN_MAX]))
    return first if len(brokers) <= REPLICAS_SHOWN_MAX else f"{first}, ... ({len(brokers)} of them)"


def _bad_assignment(message: str) -> TopicRefused:
    return TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


# ---------------------------------------------------------------- more partitions


def create_partitions(
    machines: StateMachines, request: CreatePartitionsRequest
) -> Procedure[CreatePartitionsResponse]:
    topic = request.topic
    refusal = _partitions_refusal(machines.cluster, request)
    if refusal is not None:
        return _no_more_partitions(topic, refusal)
    while True:
        found = yield Get(topic_path(topic))
        if not found.ok or not found.value.value:
            return _no_more_partitions(topic, _unknown(topic))
        node: StoredNode = found.value
        before: TopicNode = node.value
        added = _added_partitions(machines, request, before.partitions)
        if request.validate_only:
            return CreatePartitionsResponse(topic=topic, error=ErrorCode.NONE)
        extended = before.extended(added)
        if extended == before:
            break  # an earlier attempt of this write, whose answer was lost
        result = yield from machines.fenced(SetValue(topic_path(topic), extended, node.stat.version))
        if result.ok:
            break
        if result.error is KeeperError.TOO_LARGE:
            return _no_more_partitions(topic, _TOO_LARGE)
    yield from machines.create_partitions(machines.cluster.add_partitions(topic, extended))
    return CreatePartitionsResponse(topic=topic, error=ErrorCode.NONE)


def _no_more_partitions(topic: str, refusal: TopicRefused) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(topic=topic, error=refusal.error, message=refusal.message)


def _partitions_refusal(cluster: ClusterState, request: CreatePartitionsRequest) -> TopicRefused | None:
    topic, count = request.topic, request.count
    if TopicPartition(topic, 0) not in cluster.assignments:
        return _unknown(topic)
    if any(tp in cluster.moves for tp in cluster.topics[topic]):
        message = f"A partition reassignment is in progress for the topic {topic}."
        return TopicRefused(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    known = len(cluster.topics[topic])
    if count <= known:
        wrong = f"Topic already has {known} partitions."
        if count < known:
            wrong = f"Topic currently has {known} partitions, which is higher than the requested {count}."
        return TopicRefused(ErrorCode.INVALID_PARTITIONS, wrong)
    if count - known > PARTITIONS_PER_REQUEST_MAX:
        return TOO_MANY_PARTITIONS
    factor = len(cluster.assignments[TopicPartition(topic, 0)])
    if request.assignment is None:
        if factor > len(cluster.live):
            return TopicRefused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor: {factor} larger than available brokers: {len(cluster.live)}.",
            )
        return None
    if len(request.assignment) != count - known:
        return _bad_assignment(
            f"Increasing the number of partitions by {count - known} but {len(request.assignment)} "
            "assignments provided."
        )
    strangers = sorted({b for replicas in request.assignment for b in replicas if b not in cluster.live})
    if strangers:
        return _bad_assignment(f"Unknown broker(s) in replica assignment: {_shown(strangers)}.")
    return _replicas_refusal(request.assignment, factor)


def _added_partitions(
    machines: StateMachines, request: CreatePartitionsRequest, existing: Assignment
) -> Assignment:
    added = range(len(existing), request.count)
    if request.assignment is not None:
        return dict(zip(added, request.assignment, strict=False))
    racks = _racks(machines)
    order, first = broker_round(racks), existing[0][0]
    # Continue the round that began at partition 0.
    start = order.index(first) if first in order else len(machines.cluster.assignments)
    return place_replicas(racks, added, len(existing[0]), start)


def _unknown(topic: str) -> TopicRefused:
    return TopicRefused(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic[:TOPIC_NAME_LENGTH_MAX]}' does not exist."
    )


# ---------------------------------------------------------------- existing topics


def load_topics(machines: StateMachines) -> Task:
    """A new controller learns all assignments and states."""
    tree = yield Subtree(TOPICS, watch=True)
    topics: list[tuple[str, StoredNode]] = []
    for path, node in tree.nodes.items():
        topic, _, below = path[len(TOPICS) + 1 :].partition("/")
        if not below:
            machines.cluster.add_partitions(topic, node.value or NO_PARTITIONS)
            topics.append((topic, node))
        else:
            _take_state(machines.cluster, topic, below, node)
    yield from _identify(machines, topics)


def _identify(machines: StateMachines, topics: Sequence[tuple[str, StoredNode]]) -> Task:
    """Give ids to topics without one: they were made before there were ids, or a tool wrote their nodes. A
    node that changes meanwhile is read again when its watch fires."""
    cluster = machines.cluster
    if not machines.ctx.guards.topic_ids:
        return
    nameless = [(topic, node) for topic, node in topics if node.value and not node.value.topic_id]
    while nameless:
        some, nameless = nameless[:TOPICS_PER_WRITE], nameless[TOPICS_PER_WRITE:]
        ids = [cluster.topic_ids.get(topic) or _new_topic_id(machines) for topic, _ in some]
        result = yield from machines.fenced(
            *(
                SetValue(topic_path(topic), replace(node.value, topic_id=topic_id), node.stat.version)
                for (topic, node), topic_id in zip(some, ids, strict=True)
            )
        )
        if result.ok:
            cluster.topic_ids.update(zip((topic for topic, _ in some), ids, strict=True))
        elif len(some) > 1:
            for one in some:
                yield from _identify(machines, [one])


def discover_topics(machines: StateMachines, topics: Iterable[str]) -> Task:
    """Bring topics online that another process wrote to the keeper."""
    for topic in topics:
        found = yield Together((Get(topic_path(topic)), Subtree(topic_path(topic))))
        assignment, below = found.value
        if assignment.ok:
            yield from take_assignment(machines, topic, assignment, below)


def take_assignment(machines: StateMachines, topic: str, found: Result, below: Result | None = None) -> Task:
    """A topic's assignment was read: bring its new partitions online."""
    cluster = machines.cluster
    if topic in cluster.deleting or not found.ok:
        return
    added = cluster.add_partitions(topic, found.value.value or NO_PARTITIONS)
    yield from _identify(machines, [(topic, found.value)])
    for path, node in below.nodes.items() if below is not None else ():
        _take_state(cluster, topic, path[len(topic_path(topic)) + 1 :], node)
    if added:
        yield from machines.create_partitions(added)


def forget_topics(machines: StateMachines, topics: list[str]) -> None:
    """A tool removed the nodes of topics. Brokers stop serving them; their logs are kept."""
    stopped: dict[BrokerId, list[TopicPartition]] = {}
    for topic in topics:
        for partition in machines.remove_topic(topic):
            gone = [(partition.tp, broker) for broker in partition.replicas]
            machines.phases.replicas_become(gone, ReplicaPhase.NON_EXISTENT)
            for broker in partition.replicas:
                stopped.setdefault(broker, []).append(partition.tp)
    machines.batch.send()
    for broker in sorted(stopped):
        machines.channels.stop_replica(broker, tuple(stopped[broker]), delete=False)


def _take_state(cluster: ClusterState, topic: str, below: str, node: StoredNode) -> None:
    """``below`` is a path below the topic's node; only ``partitions/P/state`` counts."""
    parts = below.split("/")
    if len(parts) == 3 and parts[2] == "state" and node.value is not None:
        tp = TopicPartition(topic, int(parts[1]))
        if tp in cluster.assignments and tp not in cluster.states:
            cluster.states[tp] = replace(node.value, version=node.stat.version)
