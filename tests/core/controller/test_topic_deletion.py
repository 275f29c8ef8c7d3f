"""Deleting topics: nothing of them is left, even if brokers die on the way, and nothing brings them back."""

import pytest
from tests.core.administrator import Administrator, replicas

from tidelog.core import keeper_paths
from tidelog.core.events import ReplicaDeleted, StrayReplicaFound, TopicDeleted
from tidelog.core.keeper_port import Create, Delete, Multi
from tidelog.core.machine_phases import ReplicaPhase
from tidelog.core.messages import (
    ACKS_ALL,
    CONSUMER,
    AlterIsrRequest,
    AlterIsrResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.reasons import StrayReason
from tidelog.core.topic_messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
)
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.faults.places import Channel
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

TP = TopicPartition("t", 0)
GENERATIONS = ("hw", "kip101", "epoch", "majority")


def traces(admin: Administrator) -> list[str]:
    """Whatever there still is of topic t: in the keeper, on disks, in what running brokers tell clients."""
    found = [
        path
        for path in (
            keeper_paths.topic_path("t"),
            keeper_paths.config_path("t"),
            keeper_paths.deletion_path("t"),
        )
        if admin.exists(path)
    ]
    for process in admin.world.processes:
        found += [f"{tp} on disk {process.id}" for tp in process.storage.partitions() if tp.topic == "t"]
        if process.core is not None:
            found += [f"{tp} in {process.id}" for tp in process.core.replicas if tp.topic == "t"]
            found += [f"listed by {process.id}"] if "t" in process.core.metadata.topics else []
    return found


def produce(admin: Administrator, value: str, broker: int = 0) -> ProduceResponse:
    request = ProduceRequest(TP, 1, MemoryBatch(value), 5_000)
    return admin.ask(request, ProduceResponse, to=broker)


# ---------------------------------------------------------------- the ordinary way


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_deleted_topic_leaves_nothing(generation: str) -> None:
    """Not in the keeper, not on any disk, not in the metadata for clients."""
    admin = Administrator(Setup(brokers=3, generation=generation))
    admin.create("t", partitions=3, factor=2, config={"retention.ms": "1"})
    admin.create("other")
    produce(admin, "a")
    assert admin.delete("t") == DeleteTopicResponse(topic="t", error=ErrorCode.NONE)
    assert traces(admin) == []
    assert admin.listed(1) == {"other": [0]}
    assert len(admin.happened(ReplicaDeleted)) == 6
    assert [event.topic for event in admin.happened(TopicDeleted)] == ["t"]


def test_the_controller_no_longer_lists_the_topic_when_it_answers() -> None:
    """Who deletes a topic and asks for it at once does not find it, though its logs may take a while."""
    admin = Administrator()
    admin.create("t")
    admin.world.network.hold(Channel("control", 0, 2))
    number = admin.send(DeleteTopicRequest(topic="t"))
    admin.until(lambda: number in admin.answers)
    assert "t" not in admin.listed(0)
    assert admin.exists(keeper_paths.topic_path("t"))
    admin.world.network.release_everything()
    admin.world.settle()
    assert traces(admin) == []


def test_a_topic_created_anew_is_a_new_topic() -> None:
    """Epoch 0, an empty log, its own settings: nothing of its former life."""
    admin = Administrator()
    admin.create("t", config={"retention.ms": "1"})
    for value in "abc":
        produce(admin, value)
    admin.world.advance(10_000)
    admin.delete("t")
    assert admin.create("t").error is ErrorCode.NONE
    state = admin.state("t")
    assert state is not None
    assert (state.leader_epoch, state.version) == (0, 0)
    assert admin.value(keeper_paths.config_path("t")) == {}
    leader = state.leader
    assert produce(admin, "x", leader).base_offset == 0
    admin.world.advance(2_000)
    for broker in range(3):
        replica = admin.core(broker).replicas[TP]
        assert (replica.log.end_offset, replica.high_watermark) == (1, 1)


def test_whoever_waits_for_the_topic_is_answered() -> None:
    """Parked produces and fetches get an error, because they cannot succeed any more."""
    admin = Administrator()
    admin.create("t")
    admin.world.network.hold(Channel("fetch", 1, 0))
    parked = [
        admin.send(ProduceRequest(TP, ACKS_ALL, MemoryBatch("a"), 60_000), to=0),
        admin.send(FetchRequest(TP, CONSUMER, 0, LeaderEpoch(-1), 60_000), to=0),
    ]
    admin.world.settle()
    assert not [number for number in parked if number in admin.answers]
    admin.delete("t")
    assert admin.answer(parked[0], ProduceResponse).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert admin.answer(parked[1], FetchResponse).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(admin, "b").error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_does_not_exist_cannot_be_deleted() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION, and no mark."""
    admin = Administrator()
    assert admin.delete("t").error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not admin.exists(keeper_paths.deletion_path("t"))


def test_only_the_controller_deletes() -> None:
    """NOT_CONTROLLER from any other broker."""
    admin = Administrator()
    admin.create("t")
    answer = admin.ask(DeleteTopicRequest(topic="t"), DeleteTopicResponse, to=2)
    assert answer.error is ErrorCode.NOT_CONTROLLER
    assert admin.listed(0) == {"t": [0]}


def test_a_tool_deletes_by_its_mark() -> None:
    """The watch on /admin/delete_topics tells the controller; a mark for nothing is removed."""
    admin = Administrator()
    admin.create("t")
    admin.tool(Create(keeper_paths.deletion_path("t")))
    assert traces(admin) == []
    admin.tool(Create(keeper_paths.deletion_path("t")))
    assert traces(admin) == []


def test_what_cannot_be_marked_is_not_deleted() -> None:
    """A tool removed /admin/delete_topics: without a mark, a new controller could not continue the
    deletion."""
    admin = Administrator()
    admin.create("t")
    admin.tool(Delete(keeper_paths.DELETE_TOPICS))
    assert admin.delete("t").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert admin.listed(0) == {"t": [0]}


def test_a_large_topic_is_removed_in_several_writes() -> None:
    """More nodes than one transaction takes."""
    admin = Administrator()
    admin.create("t", partitions=350, factor=1)
    assert len(admin.logs(0)) > 100
    admin.delete("t")
    assert traces(admin) == []


def test_a_topic_removed_by_force_is_no_longer_served() -> None:
    """A tool deleted its nodes: brokers stop serving it and keep its logs, which are strays from then on."""
    admin = Administrator()
    admin.create("t")
    state = keeper_paths.state_path(TP)
    doomed = (
        state,
        keeper_paths.partition_path(TP),
        keeper_paths.partitions_path("t"),
        keeper_paths.topic_path("t"),
    )
    admin.tool(Multi(tuple(map(Delete, doomed))))
    assert [admin.listed(broker) for broker in range(3)] == [{}, {}, {}]
    assert produce(admin, "a").error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.logs(1) == [TP]
    admin.world.crash(1)
    admin.world.start(1)
    admin.until(lambda: bool(admin.happened(StrayReplicaFound)))
    stray = admin.happened(StrayReplicaFound)[0]
    assert (stray.broker, stray.tp, stray.reason) == (1, TP, StrayReason.NO_SUCH_PARTITION)
    assert admin.logs(1) == [TP]


def test_a_log_of_a_partition_that_lives_elsewhere_is_a_stray() -> None:
    """It is named, and left."""
    admin = Administrator()
    admin.world.processes[2].storage.open(TP)
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}), CreateTopicResponse)
    admin.world.crash(2)
    admin.world.start(2)
    admin.until(lambda: bool(admin.happened(StrayReplicaFound)))
    (stray, *_) = admin.happened(StrayReplicaFound)
    assert (stray.reason, stray.replicas) == (StrayReason.LIVES_ELSEWHERE, (0, 1))
    assert admin.logs(2) == [TP]


# ---------------------------------------------------------------- nothing brings it back


def waiting_for_broker_2() -> Administrator:
    """A cluster in which the deletion of t waits for a broker that is away."""
    admin = Administrator()
    admin.create("t", config={"retention.ms": "1"})
    admin.world.crash(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.world.advance(1_000)
    assert admin.delete("t").error is ErrorCode.NONE
    return admin


def test_a_dead_replica_makes_deletion_wait() -> None:
    """The topic is gone for clients, its name is taken, its mark stays until the broker is back."""
    admin = waiting_for_broker_2()
    admin.world.advance(600_000)
    assert (admin.listed(0), admin.listed(1)) == ({}, {})
    assert (admin.logs(0), admin.logs(1), admin.logs(2)) == ([], [], [TP])
    assert admin.exists(keeper_paths.deletion_path("t"))
    refused = admin.create("t")
    assert (refused.error, refused.message) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 't' is marked for deletion.",
    )
    assert admin.delete("t").error is ErrorCode.NONE
    more = CreatePartitionsRequest(topic="t", count=5)
    assert admin.ask(more, CreatePartitionsResponse).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elect = ElectLeadersRequest(tp=TP)
    assert admin.ask(elect, ElectLeadersResponse).error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_returning_broker_gives_up_its_replica() -> None:
    """It gets StopReplica before it can serve the log, and the deletion completes."""
    admin = waiting_for_broker_2()
    admin.world.start(2)
    admin.until(lambda: traces(admin) == [])
    assert admin.happened(StrayReplicaFound) == []
    assert admin.create("t").error is ErrorCode.NONE


def test_a_new_controller_goes_on_with_the_deletion() -> None:
    """It finds the mark, does not serve the topic, and completes when all brokers are back."""
    admin = waiting_for_broker_2()
    admin.world.crash(0)
    admin.until(lambda: admin.exists(keeper_paths.CONTROLLER) and admin.controller == 1)
    admin.world.settle()
    assert admin.listed(1) == {}
    admin.world.start(2)
    admin.world.advance(1_000)
    assert traces(admin) != []
    admin.world.start(0)
    admin.until(lambda: traces(admin) == [])


def test_a_replica_that_dies_while_it_deletes_is_asked_again() -> None:
    """Its broker did not answer the request, so it gets the request again when it is back."""
    admin = Administrator()
    admin.create("t")
    admin.world.network.hold(Channel("control", 0, 2))
    assert admin.delete("t").error is ErrorCode.NONE
    admin.world.crash(2)
    admin.world.network.release_everything()
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.world.advance(1_000)
    assert admin.exists(keeper_paths.deletion_path("t"))
    machines = admin.core(0).controller.machines
    assert machines is not None
    assert [machines.cluster.replicas[TP, BrokerId(broker)] for broker in range(3)] == [
        ReplicaPhase.DELETION_SUCCESSFUL,
        ReplicaPhase.DELETION_SUCCESSFUL,
        ReplicaPhase.DELETION_INELIGIBLE,
    ]
    admin.world.start(2)
    admin.until(lambda: traces(admin) == [])


def test_a_broker_that_was_cut_off_forgets_a_topic_that_was_deleted_meanwhile() -> None:
    """It held no replica, so the deletion did not wait for it; the first request of a controller replaces all
    its metadata."""
    admin = Administrator()
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}), CreateTopicResponse)
    admin.world.pause(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.delete("t")
    assert "t" in admin.core(2).metadata.topics
    admin.world.resume(2)
    admin.until(lambda: traces(admin) == [])


def test_a_late_isr_proposal_does_not_bring_it_back() -> None:
    """Not while it is being deleted, not afterwards, and not into its next life, whose epochs are lower."""
    admin = Administrator()
    admin.create("t", factor=3)
    admin.world.crash(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.world.start(2)
    admin.world.advance(5_000)
    state = admin.state("t")
    assert state is not None
    assert state.leader_epoch == 1
    epochs = {b: admin.core(b).ctx.broker_epoch for b in range(3)}
    late = AlterIsrRequest(
        tp=TP,
        broker=state.leader,
        broker_epoch=epochs[state.leader],
        leader_epoch=LeaderEpoch(1),
        isr=replicas(0, 1),
        version=0,
        member_epochs=(epochs[0], epochs[1]),
    )
    admin.world.pause(2)
    admin.delete("t")
    assert admin.ask(late, AlterIsrResponse).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    admin.world.resume(2)
    admin.world.settle()
    assert traces(admin) == []
    assert admin.ask(late, AlterIsrResponse).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert traces(admin) == []
    admin.create("t", factor=3)
    created = admin.state("t")
    assert admin.ask(late, AlterIsrResponse).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert admin.state("t") == created


def test_a_deposed_controller_deletes_nothing() -> None:
    """Its mark is refused, and so is every removal."""
    admin = Administrator()
    admin.create("t")
    admin.world.network.hold(Channel("control-reply", 2, 0))
    admin.delete("t")
    admin.world.cut([(0, f"keeper-{member}") for member in range(3)])
    admin.until(lambda: admin.exists(keeper_paths.CONTROLLER) and admin.controller != 0)
    admin.world.network.hold(Channel("control", admin.controller, 1))
    admin.world.network.release(Channel("control-reply", 2, 0))
    admin.world.heal()
    admin.world.advance(1_000)
    assert admin.exists(keeper_paths.topic_path("t"))
    admin.world.network.release_everything()
    admin.until(lambda: traces(admin) == [])


# ---------------------------------------------------------------- a crash at every step


def crash_at(admin: Administrator, call: int, *, executed: bool) -> bool:
    """Let the cluster work until the controller's n-th call is on its way to the keeper, then crash it; the
    call is executed all the same, or lost. False if it does not make that many."""
    made = 0
    world = admin.world
    while head := world.network.earliest(world.paused):
        due, channel = head
        world.now = max(world.now, due)
        if channel.name == "keeper" and channel.source == 0:
            made += 1
            if made == call:
                world.crash(0, power=not executed)
                return True
        world.deliver(channel)
    return False


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "lost"])
@pytest.mark.parametrize("generation", ["hw", "epoch"])
def test_deletion_survives_the_death_of_the_controller_at_every_call(generation: str, executed: bool) -> None:
    """Whichever call to the keeper was the last: the topic is there as it was, or it goes completely; and
    then it can be created again."""
    call = outcomes = 0
    while True:
        call += 1
        admin = Administrator(Setup(brokers=3, generation=generation, sync_each_append=True))
        admin.create("t", partitions=2, config={"retention.ms": "1"})
        produce(admin, "a", int(admin.value(keeper_paths.topic_path("t")).partitions[0][0]))
        admin.send(DeleteTopicRequest(topic="t"))
        if not crash_at(admin, call, executed=executed):
            break
        admin.until(lambda admin=admin: admin.exists(keeper_paths.CONTROLLER) and admin.controller != 0)  # type: ignore[misc]
        admin.world.start(0)
        admin.world.advance(20_000)
        if traces(admin):
            assert admin.listed(1) == {"t": [0, 1]}, f"half-way after call {call}"
            assert not admin.exists(keeper_paths.deletion_path("t"))
            assert admin.delete("t").error is ErrorCode.NONE
            admin.world.advance(20_000)
        else:
            outcomes += 1
        assert traces(admin) == [], f"after a crash at call {call}"
        assert admin.create("t", partitions=2).error is ErrorCode.NONE
        for partition in range(2):
            state = admin.state("t", partition)
            assert state is not None
            assert state.leader_epoch == 0
            replica = admin.core(state.leader).replicas[TopicPartition("t", partition)]
            assert replica.log.end_offset == (1 if generation == "majority" else 0)
    assert call > 4
    assert outcomes > 1


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "lost"])
def test_creation_survives_the_death_of_the_controller_at_every_call(executed: bool) -> None:
    """The topic is complete and led, or it is not there at all and can be created."""
    call = 0
    while True:
        call += 1
        admin = Administrator()
        admin.send(
            CreateTopicRequest(topic="t", partitions=3, replication_factor=2, config={"retention.ms": "1"})
        )
        if not crash_at(admin, call, executed=executed):
            break
        admin.until(lambda admin=admin: admin.exists(keeper_paths.CONTROLLER) and admin.controller != 0)  # type: ignore[misc]
        admin.world.start(0)
        admin.world.advance(20_000)
        if not admin.exists(keeper_paths.topic_path("t")):
            assert traces(admin) == []
            assert admin.create("t", partitions=3, factor=2).error is ErrorCode.NONE
        assert [admin.listed(broker) for broker in range(3)] == [{"t": [0, 1, 2]}] * 3
        for partition in range(3):
            state = admin.state("t", partition)
            assert state is not None
            assert state.leader in admin.core(1).metadata.live_brokers
    assert call > 2


def test_brokers_are_told_to_forget_before_they_are_told_to_erase() -> None:
    """A client of the last leader is never sent to it again: metadata first, log second."""
    admin = Administrator()
    admin.create("t")
    seen: list[tuple[bool, bool]] = []
    admin.send(DeleteTopicRequest(topic="t"))
    while admin.world.step(None) and admin.exists(keeper_paths.topic_path("t")):
        core = admin.core(int(BrokerId(0)))
        seen.append(("t" in core.metadata.topics, TP in core.replicas))
    assert (True, False) not in seen
    assert (False, True) in seen
