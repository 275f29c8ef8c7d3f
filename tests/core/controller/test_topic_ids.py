"""Topic ids (KIP-516): a topic that was created again is never mistaken for the one before it."""

from dataclasses import replace

import pytest
from tests.core.administrator import Administrator, replicas, topic_written_by_a_tool

from tidelog.core import keeper_paths
from tidelog.core.events import StrayReplicaFound
from tidelog.core.keeper_port import Delete, Multi, SetValue
from tidelog.core.messages import (
    CONSUMER,
    AlterIsrRequest,
    AlterIsrResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.reasons import StrayReason
from tidelog.core.topic_messages import DeleteTopicRequest, DeleteTopicResponse
from tidelog.core.types import NO_EPOCH, NO_TOPIC_ID, LeaderEpoch, TopicId, TopicPartition
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch, MemoryLog
from tidelog.wire.errors import ErrorCode

TP = TopicPartition("t", 0)
WITH_IDS = ("epoch", "elr", "majority")


def cluster(generation: str = "epoch", without: tuple[str, ...] = ()) -> Administrator:
    return Administrator(Setup(brokers=3, generation=generation, without=without))


def stored_id(admin: Administrator) -> TopicId:
    topic_id = admin.value(keeper_paths.topic_path("t")).topic_id
    assert isinstance(topic_id, str)
    return TopicId(topic_id)


def log(admin: Administrator, broker: int) -> MemoryLog:
    return admin.world.processes[broker].storage.logs[TP]


def values(admin: Administrator, broker: int) -> str:
    return "".join(batch.value or "" for batch in log(admin, broker).batches)


def produce(admin: Administrator, letters: str) -> None:
    state = admin.state("t")
    assert state is not None
    for letter in letters:
        request = ProduceRequest(TP, 1, MemoryBatch(letter), 5_000)
        assert admin.ask(request, ProduceResponse, to=state.leader).error is ErrorCode.NONE
    admin.world.advance(2_000)


def away(admin: Administrator, broker: int) -> None:
    admin.world.crash(broker)
    admin.until(lambda: broker not in admin.core(0).metadata.live_brokers)
    admin.world.advance(1_000)


def removed_by_a_tool(admin: Administrator) -> None:
    """A tool removes the nodes of topic t, as was done when a deletion hung."""
    path, config = keeper_paths.topic_path("t"), keeper_paths.config_path("t")
    below = (keeper_paths.state_path(TP), keeper_paths.partition_path(TP), keeper_paths.partitions_path("t"))
    admin.tool(Multi(tuple(map(Delete, (*below, path, config)))))
    admin.world.advance(1_000)


# ---------------------------------------------------------------- where the id is


@pytest.mark.parametrize("generation", WITH_IDS)
def test_a_topic_has_an_id_and_the_next_of_its_name_another(generation: str) -> None:
    """In the keeper, in the metadata of every broker, and with each log."""
    admin = cluster(generation)
    ids = []
    for _ in range(2):
        answer = admin.create("t", partitions=2)
        assert answer.topic_id == stored_id(admin) != NO_TOPIC_ID
        for broker in range(3):
            metadata = admin.core(broker).metadata
            assert metadata.topic_id("t") == answer.topic_id
            assert metadata.topic_names == {answer.topic_id: "t"}
            assert log(admin, broker).topic_id == answer.topic_id
        ids.append(answer.topic_id)
        admin.delete("t")
        assert [admin.core(broker).metadata.topic_names for broker in range(3)] == [{}] * 3
    assert ids[0] != ids[1]


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_kafka_2_8_there_are_no_ids(generation: str) -> None:
    admin = cluster(generation)
    assert admin.create("t").topic_id == NO_TOPIC_ID
    assert stored_id(admin) == NO_TOPIC_ID
    assert log(admin, 0).topic_id == NO_TOPIC_ID
    assert admin.core(1).metadata.topic_names == {}


def test_another_controller_keeps_the_ids_and_invents_others() -> None:
    admin = cluster()
    first = admin.create("t").topic_id
    away(admin, 2)
    admin.world.crash(0)
    admin.until(lambda: admin.exists(keeper_paths.CONTROLLER) and admin.controller == 1)
    admin.world.settle()
    assert (stored_id(admin), admin.core(1).metadata.topic_id("t")) == (first, first)
    assert admin.create("u", factor=1).topic_id not in ("", first)


# ---------------------------------------------------------------- topics from before there were ids


def test_topics_without_an_id_get_one_from_the_next_controller() -> None:
    """So do their logs, without losing a record: the keeper and the disks of an earlier release."""
    admin = cluster()
    admin.create("t", partitions=1)
    produce(admin, "ab")
    for process in admin.world.processes:
        process.storage.logs[TP].topic_id = NO_TOPIC_ID
    node = admin.value(keeper_paths.topic_path("t"))
    for broker in range(3):
        admin.world.crash(broker)
    admin.tool(SetValue(keeper_paths.topic_path("t"), replace(node, topic_id=NO_TOPIC_ID)))
    for broker in range(3):
        admin.world.start(broker)
    admin.until(lambda: log(admin, 2).topic_id != NO_TOPIC_ID)
    admin.world.advance(5_000)
    assert {log(admin, broker).topic_id for broker in range(3)} == {stored_id(admin)}
    assert [values(admin, broker) for broker in range(3)] == ["ab"] * 3
    assert admin.happened(StrayReplicaFound) == []


def test_a_topic_that_a_tool_wrote_gets_an_id() -> None:
    """And keeps it if the tool writes the node again, without it."""
    admin = cluster()
    written = topic_written_by_a_tool("t", {0: replicas(0, 1)})
    admin.tool(written)
    first = stored_id(admin)
    assert first == admin.core(2).metadata.topic_id("t") != NO_TOPIC_ID
    admin.tool(
        SetValue(written.path, replace(written.value, partitions={0: replicas(0, 1), 1: replicas(1, 2)}))
    )
    assert stored_id(admin) == first
    assert admin.listed(2) == {"t": [0, 1]}


# ---------------------------------------------------------------- a log of an earlier topic


@pytest.mark.parametrize("generation", WITH_IDS)
def test_a_log_of_an_earlier_topic_is_put_aside(generation: str) -> None:
    """A broker returns with it, and has a replica of the later topic: it begins with an empty log."""
    admin = cluster(generation)
    admin.create("t")
    produce(admin, "old")
    away(admin, 2)
    removed_by_a_tool(admin)
    for broker in (0, 1):
        admin.world.processes[broker].storage.delete(TP)
        admin.core(broker).replicas.pop(TP, None)
    admin.tool(topic_written_by_a_tool("t", {0: replicas(0, 1, 2)}))
    produce(admin, "n")
    admin.world.start(2)
    admin.until(lambda: values(admin, 2) == "n")
    assert log(admin, 2).topic_id == stored_id(admin)
    assert [(e.broker, e.reason) for e in admin.happened(StrayReplicaFound)][-1] == (
        2,
        StrayReason.EARLIER_TOPIC,
    )
    admin.until(lambda: sorted(getattr(admin.state("t"), "isr", ())) == [0, 1, 2])


def test_without_ids_the_logs_of_two_topics_are_mixed() -> None:
    """What the guard prevents: both have leader epoch 0, so the returning follower finds nothing wrong."""
    admin = cluster("epoch", without=("topic_ids",))
    admin.create("t")
    produce(admin, "old")
    away(admin, 2)
    removed_by_a_tool(admin)
    for broker in (0, 1):
        admin.world.processes[broker].storage.delete(TP)
        admin.core(broker).replicas.pop(TP, None)
    admin.tool(topic_written_by_a_tool("t", {0: replicas(0, 1, 2)}))
    produce(admin, "newer")
    admin.world.start(2)
    admin.until(lambda: log(admin, 2).end_offset == 5)
    assert (values(admin, 0), values(admin, 2)) == ("newer", "older")


def test_under_elr_a_deletion_does_not_wait_for_a_dead_broker() -> None:
    """As in KRaft. The name is free at once, and the returning broker does not bring the records back."""
    admin = cluster("elr")
    admin.create("t")
    produce(admin, "old")
    away(admin, 2)
    assert admin.delete("t").error is ErrorCode.NONE
    assert not admin.exists(keeper_paths.topic_path("t"))
    assert admin.create("t", factor=2).error is ErrorCode.NONE
    produce(admin, "n")
    admin.world.start(2)
    admin.world.advance(5_000)
    assert values(admin, 2) == "old"  # no replica of the new topic: kept, and served to no one
    asked = FetchRequest(TP, CONSUMER, 0, NO_EPOCH, 0)
    assert admin.ask(asked, FetchResponse, to=2).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    admin.delete("t")
    admin.create("t", factor=3)
    produce(admin, "m")
    assert [values(admin, broker) for broker in range(3)] == ["m"] * 3


def test_under_elr_a_broker_that_dies_while_it_deletes_is_not_waited_for() -> None:
    admin = cluster("elr")
    admin.create("t")
    admin.world.pause(2)
    assert admin.delete("t").error is ErrorCode.NONE
    assert admin.exists(keeper_paths.topic_path("t"))
    admin.until(lambda: not admin.exists(keeper_paths.topic_path("t")))
    assert admin.create("t", factor=2).error is ErrorCode.NONE


# ---------------------------------------------------------------- requests for an earlier topic


def test_a_leader_refuses_a_fetch_for_another_topic() -> None:
    """A follower that has heard nothing of the new topic fetches in the same leader epoch."""
    admin = cluster()
    admin.create("t")
    produce(admin, "abc")
    asked = FetchRequest(TP, replicas(1)[0], 2, LeaderEpoch(0), 0, admin.core(1).ctx.broker_epoch)
    for topic_id, error in (
        (TopicId("another"), ErrorCode.INCONSISTENT_TOPIC_ID),
        (stored_id(admin), ErrorCode.NONE),
        (NO_TOPIC_ID, ErrorCode.NONE),
    ):
        answer = admin.ask(replace(asked, topic_id=topic_id), FetchResponse, to=0)
        assert (answer.error, bool(answer.batches)) == (error, error is ErrorCode.NONE)


def test_the_controller_refuses_an_isr_of_an_earlier_topic() -> None:
    admin = cluster()
    admin.create("t")
    state = admin.state("t")
    assert state is not None
    proposal = AlterIsrRequest(
        tp=TP,
        broker=state.leader,
        broker_epoch=admin.core(state.leader).ctx.broker_epoch,
        leader_epoch=state.leader_epoch,
        isr=replicas(state.leader),
        version=state.version,
        member_epochs=(admin.core(state.leader).ctx.broker_epoch,),
        topic_id=TopicId("earlier"),
    )
    assert admin.ask(proposal, AlterIsrResponse).error is ErrorCode.UNKNOWN_TOPIC_ID
    own = replace(proposal, topic_id=stored_id(admin))
    assert admin.ask(own, AlterIsrResponse).error is ErrorCode.NONE


def test_a_topic_is_deleted_by_its_id_and_no_other_of_its_name() -> None:
    admin = cluster()
    first = admin.create("t").topic_id
    admin.delete("t")
    admin.create("t")
    answer = admin.ask(DeleteTopicRequest(topic="t", topic_id=first), DeleteTopicResponse)
    assert (answer.error, answer.message) == (ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {first}.")
    assert admin.listed(1) == {"t": [0]}
    answer = admin.ask(DeleteTopicRequest(topic="t", topic_id=stored_id(admin)), DeleteTopicResponse)
    assert answer.error is ErrorCode.NONE
    assert admin.listed(1) == {}
