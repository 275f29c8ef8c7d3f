"""Partitions move to other brokers (KIP-455): nothing is lost, whatever dies on the way."""

from dataclasses import replace

import pytest
from tests.core.administrator import Administrator

from tidelog.core import keeper_paths
from tidelog.core.assignments import NOT_MOVING, Reassignment, TopicNode, reassigned
from tidelog.core.events import (
    ReassignmentCancelled,
    ReassignmentCompleted,
    ReassignmentStarted,
    ReplicaDeleted,
    StrayReplicaFound,
)
from tidelog.core.machine_phases import ReplicaPhase
from tidelog.core.messages import ACKS_ALL, ProduceRequest, ProduceResponse
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.topic_messages import (
    AlterReassignmentRequest,
    AlterReassignmentResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
)
from tidelog.core.types import NO_TOPIC_ID, BrokerId, TopicPartition
from tidelog.faults.places import Channel
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

TP = TopicPartition("t", 0)
BY_ISR = ("hw", "kip101", "epoch", "elr")
"""The generations whose replicas can be moved."""


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def cluster(generation: str = "epoch", *replicas: int, brokers: int = 5) -> Administrator:
    """Topic t with three records, by default on brokers 1 and 2. Broker 0 is the controller."""
    admin = Administrator(Setup(brokers=brokers, generation=generation))
    assert admin.create("t", -1, -1, assignment={0: ids(*(replicas or (1, 2)))}).error is ErrorCode.NONE
    for value in "abc":
        produce(admin, value)
    return admin


def produce(admin: Administrator, value: str) -> None:
    state = admin.state("t")
    assert state is not None
    number = admin.send(ProduceRequest(TP, ACKS_ALL, MemoryBatch(value), 30_000), to=state.leader)
    admin.until(lambda: number in admin.answers)
    assert admin.answer(number, ProduceResponse).error is ErrorCode.NONE


def move(admin: Administrator, *replicas: int) -> ErrorCode:
    request = AlterReassignmentRequest(tp=TP, replicas=ids(*replicas))
    return admin.ask(request, AlterReassignmentResponse).error


def cancel(admin: Administrator) -> ErrorCode:
    return admin.ask(AlterReassignmentRequest(tp=TP, replicas=None), AlterReassignmentResponse).error


def moves(admin: Administrator) -> dict[TopicPartition, tuple[tuple[BrokerId, ...], Reassignment]]:
    return admin.ask(ListReassignmentsRequest(), ListReassignmentsResponse).moves


def node(admin: Administrator) -> TopicNode:
    """Without the id, which no move changes."""
    found = admin.value(keeper_paths.topic_path("t"))
    assert isinstance(found, TopicNode)
    return replace(found, topic_id=NO_TOPIC_ID)


def settled(admin: Administrator, *replicas: int) -> bool:
    """It has these replicas, all in sync, and no move is under way."""
    state = admin.state("t")
    return (
        node(admin) == TopicNode({0: ids(*replicas)})
        and state is not None
        and sorted(state.isr) == sorted(replicas)
    )


def values(admin: Administrator, broker: int) -> list[str | None]:
    log = admin.world.processes[broker].storage.logs.get(TP)
    return [] if log is None else [batch.value for batch in log.batches if batch.value is not None]


# ---------------------------------------------------------------- the arithmetic


@pytest.mark.parametrize(
    ("replicas", "under_way", "target", "everything", "expected"),
    [
        ((1, 2), NOT_MOVING, (3, 2), (3, 2, 1), Reassignment(ids(3), ids(1))),
        ((1, 2), NOT_MOVING, (2, 1), (2, 1), NOT_MOVING),
        ((1, 2), NOT_MOVING, (1,), (1, 2), Reassignment((), ids(2))),
        ((1, 2), NOT_MOVING, (1, 2, 3), (1, 2, 3), Reassignment(ids(3), ())),
        # Another target while one is under way: what was added for it is in neither list any more.
        ((3, 2, 1), Reassignment(ids(3), ids(1)), (4, 1), (4, 1, 2), Reassignment(ids(4), ids(2))),
        ((3, 2, 1), Reassignment(ids(3), ids(1)), (2, 1), (2, 1), NOT_MOVING),
    ],
)
def test_the_list_holds_both_ends_of_the_move(
    replicas: tuple[int, ...],
    under_way: Reassignment,
    target: tuple[int, ...],
    everything: tuple[int, ...],
    expected: Reassignment,
) -> None:
    """The target first, then what is to be removed; both can be read back from it."""
    found, moving = reassigned(ids(*replicas), under_way, ids(*target))
    assert (found, moving) == (ids(*everything), expected)
    assert moving.target(found) == ids(*target)
    assert set(moving.origin(found)) == set(under_way.origin(ids(*replicas)))


# ---------------------------------------------------------------- the ordinary way


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_partition_moves_to_other_brokers(generation: str) -> None:
    """New replicas catch up, the old ones are deleted, and the leader is the first of the new ones."""
    admin = cluster(generation)
    assert move(admin, 3, 4) is ErrorCode.NONE
    admin.until(lambda: settled(admin, 3, 4))
    admin.world.settle()
    produce(admin, "d")
    state = admin.state("t")
    assert state is not None
    assert state.leader == 3
    admin.world.advance(2_000)
    assert [values(admin, broker) for broker in range(5)] == [[], [], [], list("abcd"), list("abcd")]
    assert admin.logs(1) == admin.logs(2) == []
    for broker in range(5):
        known = admin.core(broker).metadata.get(TP)
        assert known is not None
        assert known.replicas == ids(3, 4)
    phases = admin.core(0).controller.machines.cluster.replicas  # type: ignore[union-attr]
    assert phases == {(TP, 3): ReplicaPhase.ONLINE, (TP, 4): ReplicaPhase.ONLINE}
    assert [event.replicas for event in admin.happened(ReassignmentCompleted)] == [ids(3, 4)]
    assert moves(admin) == {}


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_leader_that_stays_goes_on_leading(generation: str) -> None:
    """It learns of its new follower, and of the one that has gone: neither holds up its high watermark."""
    admin = cluster(generation)
    assert move(admin, 1, 3) is ErrorCode.NONE
    admin.until(lambda: settled(admin, 1, 3))
    admin.world.settle()
    role = admin.core(1).replicas[TP].role
    assert isinstance(role, LeaderRole)
    assert list(role.followers) == [3]
    produce(admin, "d")
    admin.world.advance(2_000)
    assert values(admin, 1) == values(admin, 3) == list("abcd")


@pytest.mark.parametrize("generation", BY_ISR)
@pytest.mark.parametrize("replicas", [(1, 2, 3), (2,), (2, 1)])
def test_the_number_of_replicas_may_change_and_so_may_their_order(
    generation: str, replicas: tuple[int, ...]
) -> None:
    admin = cluster(generation)
    assert move(admin, *replicas) is ErrorCode.NONE
    admin.until(lambda: settled(admin, *replicas))
    admin.world.settle()
    produce(admin, "d")
    admin.world.advance(2_000)
    for broker in range(5):
        assert values(admin, broker) == (list("abcd") if broker in replicas else [])


@pytest.mark.parametrize("generation", BY_ISR)
def test_while_it_moves_both_ends_are_listed(generation: str) -> None:
    """In the keeper, in the list of moves, and for clients; new replicas are not yet in sync."""
    admin = cluster(generation)
    admin.world.crash(3)
    admin.world.settle()
    admin.world.start(3)
    admin.world.settle()
    admin.world.network.hold(Channel("fetch", 3, 1))
    assert move(admin, 3, 2) is ErrorCode.NONE
    going = Reassignment(ids(3), ids(1))
    assert node(admin) == TopicNode({0: ids(3, 2, 1)}, {0: going})
    assert moves(admin) == {TP: (ids(3, 2, 1), going)}
    known = admin.core(4).metadata.get(TP)
    assert known is not None
    assert known.replicas == ids(3, 2, 1)
    assert admin.ask(
        ListReassignmentsRequest(tps=(TopicPartition("t", 7),)), ListReassignmentsResponse
    ) == ListReassignmentsResponse(error=ErrorCode.NONE)
    produce(admin, "d")
    assert admin.happened(ReplicaDeleted) == []
    admin.world.network.release_everything()
    admin.until(lambda: settled(admin, 3, 2))
    assert values(admin, 3) == list("abcd")


# ---------------------------------------------------------------- cancelled, replaced


def held_up(generation: str, *target: int) -> Administrator:
    """A move to ``target`` whose new replicas cannot fetch from the leader."""
    admin = cluster(generation)
    for broker in target:
        admin.world.network.hold(Channel("fetch", broker, 1))
    assert move(admin, *target) is ErrorCode.NONE
    return admin


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_cancelled_move_leaves_nothing(generation: str) -> None:
    admin = held_up(generation, 3, 4)
    assert cancel(admin) is ErrorCode.NONE
    admin.world.network.release_everything()
    admin.until(lambda: settled(admin, 1, 2))
    produce(admin, "d")
    admin.world.advance(2_000)
    assert [admin.logs(broker) for broker in range(5)] == [[], [TP], [TP], [], []]
    assert [event.replicas for event in admin.happened(ReassignmentCancelled)] == [ids(1, 2)]
    assert admin.happened(ReassignmentCompleted) == []
    assert cancel(admin) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("generation", BY_ISR)
def test_another_target_replaces_the_first(generation: str) -> None:
    """What was added for the first alone is deleted at once."""
    admin = held_up(generation, 3)
    assert move(admin, 4, 2) is ErrorCode.NONE
    assert admin.logs(3) == []
    admin.world.network.release_everything()
    admin.until(lambda: settled(admin, 4, 2))
    produce(admin, "d")
    admin.world.advance(2_000)
    assert values(admin, 4) == values(admin, 2) == list("abcd")
    assert len(admin.happened(ReassignmentStarted)) == 2


@pytest.mark.parametrize("generation", BY_ISR)
def test_the_only_copies_in_sync_are_not_removed(generation: str) -> None:
    """The old replicas died while the new one was in sync: to cancel the move would delete the last copy."""
    admin = cluster(generation)
    for leader in (1, 2, 3):
        admin.world.network.hold(Channel("fetch", 4, leader))
    assert move(admin, 3, 4) is ErrorCode.NONE
    admin.until(lambda: 3 in admin.state("t").isr)  # type: ignore[union-attr]
    admin.world.crash(1)
    admin.world.crash(2)
    admin.until(lambda: admin.state("t").leader == 3 and admin.state("t").isr == (3,))  # type: ignore[union-attr]
    assert cancel(admin) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(admin, 1, 2) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert values(admin, 3) == list("abc")
    admin.world.network.release_everything()
    admin.until(lambda: settled(admin, 3, 4))
    assert values(admin, 4) == list("abc")


# ---------------------------------------------------------------- deaths on the way


@pytest.mark.parametrize("generation", BY_ISR)
@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_controller_that_dies_on_the_way_is_continued_by_the_next(generation: str, steps: int) -> None:
    """After any number of deliveries."""
    admin = cluster(generation)
    admin.send(AlterReassignmentRequest(tp=TP, replicas=ids(3, 4)))
    for _ in range(steps):
        channel = admin.world.oldest_message()
        if channel is not None:
            admin.world.deliver(channel)
    begun = bool(node(admin).moves) or bool(admin.happened(ReassignmentStarted))
    admin.world.crash(0)
    admin.until(lambda: admin.exists(keeper_paths.CONTROLLER) and admin.controller != 0)
    if not begun:
        assert move(admin, 3, 4) is ErrorCode.NONE
    admin.until(lambda: settled(admin, 3, 4), 120_000)
    admin.world.settle()
    produce(admin, "d")
    admin.world.advance(2_000)
    assert values(admin, 3) == values(admin, 4) == list("abcd")
    assert admin.logs(1) == admin.logs(2) == []


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_new_replica_that_dies_is_waited_for(generation: str) -> None:
    admin = held_up(generation, 3, 4)
    admin.world.crash(3)
    admin.world.network.release_everything()
    admin.world.advance(30_000)
    assert not settled(admin, 3, 4)
    assert values(admin, 1) == values(admin, 2) == list("abc")
    admin.world.start(3)
    admin.until(lambda: settled(admin, 3, 4))
    assert values(admin, 3) == values(admin, 4) == list("abc")


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_replica_that_is_down_when_it_is_removed_is_reported_when_it_is_back(generation: str) -> None:
    admin = cluster(generation)
    admin.world.crash(2)
    admin.until(lambda: admin.state("t").isr == (1,))  # type: ignore[union-attr]
    assert move(admin, 1, 3) is ErrorCode.NONE
    admin.until(lambda: settled(admin, 1, 3))
    admin.world.start(2)
    admin.until(lambda: bool(admin.happened(StrayReplicaFound)))
    assert [(event.broker, event.replicas) for event in admin.happened(StrayReplicaFound)] == [(2, ids(1, 3))]


@pytest.mark.parametrize("generation", BY_ISR)
def test_a_topic_that_moves_can_be_deleted(generation: str) -> None:
    """With the replicas that were to be added."""
    admin = held_up(generation, 3, 4)
    deleted = admin.ask(DeleteTopicRequest(topic="t"), DeleteTopicResponse)
    assert deleted.error is ErrorCode.NONE
    admin.world.network.release_everything()
    admin.until(lambda: not admin.exists(keeper_paths.topic_path("t")))
    assert [admin.logs(broker) for broker in range(5)] == [[]] * 5
    assert moves(admin) == {}


# ---------------------------------------------------------------- refused


def test_wrong_requests_say_what_is_wrong() -> None:
    admin = cluster()
    admin.world.crash(4)
    admin.until(lambda: 4 not in admin.core(0).controller.machines.cluster.live)  # type: ignore[union-attr]
    for replicas, words in (
        ((), "Empty replica list"),
        ((1, 1), "Duplicate replica ids"),
        ((-1,), "Invalid broker id"),
        ((1, 4), "not alive"),
        ((1, 77), "not alive"),
    ):
        request = AlterReassignmentRequest(tp=TP, replicas=ids(*replicas))
        refused = admin.ask(request, AlterReassignmentResponse)
        assert refused.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert words in (refused.message or "")
    unknown = AlterReassignmentRequest(tp=TopicPartition("t", 9), replicas=ids(1))
    assert admin.ask(unknown, AlterReassignmentResponse).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cancel(admin) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    elsewhere = admin.ask(unknown, AlterReassignmentResponse, to=2)
    assert elsewhere.error is ErrorCode.NOT_CONTROLLER
    assert admin.ask(ListReassignmentsRequest(), ListReassignmentsResponse, to=2).error is (
        ErrorCode.NOT_CONTROLLER
    )
    assert node(admin) == TopicNode({0: ids(1, 2)})


def test_a_replica_that_stays_may_be_down() -> None:
    """Only what is added must be alive: a dead broker's partitions must be movable."""
    admin = cluster()
    admin.world.crash(2)
    admin.until(lambda: admin.state("t").isr == (1,))  # type: ignore[union-attr]
    assert move(admin, 1, 2, 3) is ErrorCode.NONE
    admin.world.start(2)
    admin.until(lambda: settled(admin, 1, 2, 3))


def test_the_replicas_of_a_majority_are_not_moved() -> None:
    admin = cluster("majority", 1, 2, 3)
    assert move(admin, 1, 2, 4) is ErrorCode.INVALID_REQUEST


def test_partitions_are_not_added_while_some_move() -> None:
    admin = held_up("epoch", 3)
    request = CreatePartitionsRequest(topic="t", count=2)
    assert admin.ask(request, CreatePartitionsResponse).error is ErrorCode.REASSIGNMENT_IN_PROGRESS
    admin.world.network.release_everything()
    admin.until(lambda: settled(admin, 3))
    assert admin.ask(request, CreatePartitionsResponse).error is ErrorCode.NONE
