"""Creating topics and adding partitions: what is refused, what is written, who hears of it."""

from typing import TypeVar

import pytest
from tests.core.administrator import Administrator, replicas, topic_written_by_a_tool

from tidelog.core import keeper_paths
from tidelog.core.assignments import TopicNode
from tidelog.core.controller.topic_creation import TOO_MANY_PARTITIONS, create_partitions, create_topic
from tidelog.core.events import PartitionStateWritten
from tidelog.core.keeper_port import Create, Delete, KeeperError, Result, SetValue, Stat, StoredNode
from tidelog.core.keeper_tasks import Procedure
from tidelog.core.topic_messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
)
from tidelog.core.types import TopicPartition
from tidelog.faults.places import Channel
from tidelog.scenario.setup import Setup
from tidelog.wire.errors import ErrorCode

A = TypeVar("A")

# ---------------------------------------------------------------- creation


def test_a_topic_is_created_and_served_when_the_answer_comes() -> None:
    """Assignment and settings are in the keeper, every partition is led, every broker lists the topic."""
    admin = Administrator()
    answer = admin.create("t", partitions=3, factor=2, config={"min.insync.replicas": "2"})
    assert answer == CreateTopicResponse(
        topic="t",
        error=ErrorCode.NONE,
        message=None,
        partitions=3,
        replication_factor=2,
        topic_id=admin.value(keeper_paths.topic_path("t")).topic_id,
    )
    assert admin.value(keeper_paths.topic_path("t")).partitions == {0: (0, 1), 1: (1, 2), 2: (2, 0)}
    assert admin.value(keeper_paths.config_path("t")) == {"min.insync.replicas": "2"}
    for partition, (leader, follower) in admin.value(keeper_paths.topic_path("t")).partitions.items():
        state = admin.state("t", partition)
        assert state is not None
        assert (state.leader, state.leader_epoch, state.isr) == (leader, 0, (leader, follower))
        assert TopicPartition("t", partition) in admin.core(leader).replicas
    assert [admin.listed(broker) for broker in range(3)] == [{"t": [0, 1, 2]}] * 3


def test_the_watch_that_creation_fires_finds_nothing_to_do() -> None:
    """Each partition's state is written once, each replica gets its role once."""
    admin = Administrator()
    admin.create("t", partitions=4)
    admin.world.advance(5_000)
    assert len(admin.happened(PartitionStateWritten)) == 4


def test_the_answer_does_not_wait_for_the_followers() -> None:
    """A replica whose broker hangs does not hold up the administrator: requests to it are on their way."""
    admin = Administrator()
    admin.world.pause(2)
    assert admin.create("t").error is ErrorCode.NONE
    admin.world.resume(2)
    admin.world.settle()
    assert TopicPartition("t", 0) in admin.core(2).replicas


def test_a_topic_gets_the_brokers_default_numbers() -> None:
    """−1 partitions, −1 replicas: num.partitions and default.replication.factor."""
    admin = Administrator()
    answer = admin.ask(CreateTopicRequest(topic="t"), CreateTopicResponse)
    assert (answer.partitions, answer.replication_factor) == (1, 1)


def test_an_assignment_by_hand_is_taken_as_it_is() -> None:
    """Partition to replicas, in order of preference; a broker that is away may be among them."""
    admin = Administrator()
    assignment = {1: replicas(2, 0), 0: replicas(1, 7)}
    answer = admin.ask(CreateTopicRequest(topic="t", assignment=assignment), CreateTopicResponse)
    assert (answer.error, answer.partitions, answer.replication_factor) == (ErrorCode.NONE, 2, 2)
    assert admin.value(keeper_paths.topic_path("t")).partitions == assignment
    state = admin.state("t", 0)
    assert state is not None
    assert (state.leader, state.isr) == (1, (1,))


def test_many_small_topics_spread_like_a_large_one() -> None:
    """The first partition of the next topic is led by the next broker."""
    admin = Administrator()
    for number in range(6):
        admin.create(f"t{number}", factor=1)
    leaders = [admin.value(keeper_paths.topic_path(f"t{number}")).partitions[0][0] for number in range(6)]
    assert leaders == [0, 1, 2, 0, 1, 2]


def test_validate_only_writes_nothing() -> None:
    """The answer tells what would be; refusals are the same."""
    admin = Administrator()
    answer = admin.create("t", partitions=5, factor=2, validate_only=True)
    assert (answer.error, answer.partitions, answer.replication_factor) == (ErrorCode.NONE, 5, 2)
    assert not admin.exists(keeper_paths.topic_path("t"))
    assert admin.create("t", factor=4, validate_only=True).error is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "ä", "a b", "a\n", "x" * 250],
)
def test_illegal_names(name: str) -> None:
    """Letters, digits, dot, underscore and dash; at most 249 of them; not the names of directories."""
    answer = Administrator().create(name)
    assert answer.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.message


def test_the_longest_name() -> None:
    """249 characters are allowed."""
    assert Administrator().create("x" * 249).error is ErrorCode.NONE


def test_names_that_differ_only_in_dot_and_underscore_collide() -> None:
    """Their metrics would have one name."""
    admin = Administrator()
    admin.create("a.b_c")
    answer = admin.create("a_b.c")
    assert answer.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.message == "Topic 'a_b.c' collides with existing topics: a.b_c"


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (
            CreateTopicRequest(topic="t", partitions=0, replication_factor=1),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        (CreateTopicRequest(topic="t", partitions=10_001, replication_factor=1), *TOO_MANY_PARTITIONS),
        (
            CreateTopicRequest(
                topic="t", partitions=2**31 - 1, replication_factor=32_767, validate_only=True
            ),
            *TOO_MANY_PARTITIONS,
        ),
        (
            CreateTopicRequest(topic="t", assignment=dict.fromkeys(range(10_001), replicas(0))),
            *TOO_MANY_PARTITIONS,
        ),
        (
            CreateTopicRequest(topic="t", partitions=1, replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0.",
        ),
        (
            CreateTopicRequest(topic="t", partitions=1, replication_factor=5),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 5 larger than available brokers: 3.",
        ),
        (
            CreateTopicRequest(topic="t", partitions=1, replication_factor=1, assignment={0: replicas(0)}),
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used "
            "at the same time.",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: replicas(0), 2: replicas(1)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: replicas(0, 1), 1: replicas(1)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: replicas(1, 1)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica assignment found: [1, 1]",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: replicas(*[1] * 1_000)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica assignment found: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ... (1000 of them)]",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: replicas(*range(32_768))}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "A partition may have 32767 replicas, not 32768",
        ),
        (
            CreateTopicRequest(topic="t", assignment={0: ()}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "a partition needs replicas on existing brokers, not on []",
        ),
    ],
)
def test_refusals_say_why(request_: CreateTopicRequest, error: ErrorCode, message: str) -> None:
    """Kafka's code and Kafka's words, and nothing is written."""
    admin = Administrator()
    answer = admin.ask(request_, CreateTopicResponse)
    assert (answer.error, answer.message) == (error, message)
    assert not admin.exists(keeper_paths.topic_path("t"))
    assert not admin.exists(keeper_paths.config_path("t"))


def test_a_topic_exists_once() -> None:
    """TOPIC_ALREADY_EXISTS, also if a tool made it and the controller has not heard of it yet."""
    admin = Administrator()
    admin.create("t")
    assert admin.create("t").error is ErrorCode.TOPIC_ALREADY_EXISTS
    number = admin.send(CreateTopicRequest(topic="u", partitions=1, replication_factor=1))
    admin.world.quorum.administer(topic_written_by_a_tool("u", {0: replicas(2, 1)}))
    admin.world.settle()
    assert admin.answer(number, CreateTopicResponse).error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert admin.listed(1)["u"] == [0]


def test_settings_without_a_topic_are_replaced() -> None:
    """What a former topic of that name, or a tool, left behind does not apply to the new one."""
    admin = Administrator()
    admin.tool(Create(keeper_paths.config_path("t"), {"retention.ms": "1"}))
    assert admin.create("t", config={"retention.ms": "2"}).error is ErrorCode.NONE
    assert admin.value(keeper_paths.config_path("t")) == {"retention.ms": "2"}


def test_only_the_controller_creates() -> None:
    """Any other broker says NOT_CONTROLLER."""
    admin = Administrator()
    answer = admin.ask(
        CreateTopicRequest(topic="t", partitions=1, replication_factor=1), CreateTopicResponse, to=1
    )
    assert answer.error is ErrorCode.NOT_CONTROLLER


def test_a_deposed_controller_writes_nothing_and_says_so() -> None:
    """The keeper refuses, the request is answered NOT_CONTROLLER, the controller resigns."""
    admin = Administrator()
    admin.tool(SetValue(keeper_paths.CONTROLLER_EPOCH, 9))
    assert admin.create("t").error is ErrorCode.NOT_CONTROLLER
    assert not admin.exists(keeper_paths.topic_path("t"))
    assert not admin.core(0).controller.active


def test_requests_in_the_queue_of_a_controller_that_loses_its_session_are_answered() -> None:
    """NOT_CONTROLLER for the one in work and for the one behind it, as soon as it learns of the end."""
    admin = Administrator()
    admin.world.cut([(0, f"keeper-{member}") for member in range(3)])
    numbers = [
        admin.send(CreateTopicRequest(topic=name, partitions=1, replication_factor=1), to=0)
        for name in ("t", "u")
    ]
    admin.world.advance(20_000)
    admin.world.heal()
    admin.world.settle()
    assert [admin.answer(number, CreateTopicResponse).error for number in numbers] == [
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_CONTROLLER,
    ]


def test_an_answer_that_waits_for_the_controllers_own_broker_is_given_when_it_loses_its_office() -> None:
    """The topic was created, and another broker is controller now: the administrator gets the answer."""
    admin = Administrator()
    admin.world.network.hold(Channel("control", 0, 0))
    number = admin.send(CreateTopicRequest(topic="t", partitions=1, replication_factor=3))
    admin.world.settle()
    assert number not in admin.answers
    admin.world.cut([(0, f"keeper-{member}") for member in range(3)])
    admin.world.advance(20_000)
    admin.world.heal()
    admin.world.settle()
    assert admin.answer(number, CreateTopicResponse).error is ErrorCode.NONE


def lose_answer(admin: Administrator, lost: int) -> None:
    """The controller's connection to the keeper breaks with the n-th answer on it, and comes back."""
    answers = 0
    while answers < lost and (head := admin.world.network.earliest(())):
        due, channel = head
        admin.world.now = max(admin.world.now, due)
        answers += channel.name == "keeper-reply" and channel.target == 0
        if answers < lost:
            admin.world.deliver(channel)
    admin.world.cut([(0, f"keeper-{member}") for member in range(3)])
    admin.world.heal()
    admin.world.settle()


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_lost_answer_of_the_keeper_is_not_a_failure(lost: int) -> None:
    """The repeated call finds its own traces, and the topic is created all the same."""
    admin = Administrator()
    number = admin.send(CreateTopicRequest(topic="t", partitions=2, replication_factor=3))
    lose_answer(admin, lost)
    assert admin.answer(number, CreateTopicResponse).error is ErrorCode.NONE
    assert [admin.listed(broker) for broker in range(3)] == [{"t": [0, 1]}] * 3


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_lost_answer_does_not_add_partitions_twice(lost: int) -> None:
    """The repeated write is refused, and what is found is what was asked for."""
    admin = Administrator()
    admin.create("t", partitions=1, factor=3)
    number = admin.send(CreatePartitionsRequest(topic="t", count=3))
    lose_answer(admin, lost)
    assert admin.answer(number, CreatePartitionsResponse).error is ErrorCode.NONE
    assert [admin.listed(broker) for broker in range(3)] == [{"t": [0, 1, 2]}] * 3


def test_a_topic_without_any_live_replica_waits_for_one() -> None:
    """It exists without a leader, and the first replica that returns leads it."""
    admin = Administrator()
    admin.world.crash(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(2)}), CreateTopicResponse)
    assert admin.state("t") is None
    admin.world.start(2)
    admin.until(lambda: admin.state("t") is not None)


# ---------------------------------------------------------------- topics that tools write


def test_a_topic_written_by_a_tool_is_brought_online() -> None:
    """The watch on the topics tells the controller."""
    admin = Administrator()
    admin.tool(topic_written_by_a_tool("t", {0: replicas(1, 2), 1: replicas(2, 0)}))
    assert [admin.listed(broker) for broker in range(3)] == [{"t": [0, 1]}] * 3


def test_partitions_added_by_a_tool_are_brought_online() -> None:
    """The watch on the topic itself tells the controller: of every topic, and again and again."""
    admin = Administrator()
    admin.create("t", factor=2)
    assignment = dict(admin.value(keeper_paths.topic_path("t")).partitions)
    for partition in (1, 2):
        assignment = {**assignment, partition: replicas(2, 1)}
        admin.tool(SetValue(keeper_paths.topic_path("t"), TopicNode(assignment)))
        assert admin.listed(0) == {"t": [0, *range(1, partition + 1)]}


def test_a_new_controller_watches_the_topics_it_finds() -> None:
    """Partitions added after a fail-over are noticed as well."""
    admin = Administrator()
    admin.create("t", factor=2)
    admin.world.crash(0)
    admin.until(lambda: admin.exists(keeper_paths.CONTROLLER) and admin.controller != 0)
    admin.world.settle()
    node = admin.value(keeper_paths.topic_path("t"))
    admin.tool(SetValue(keeper_paths.topic_path("t"), node.extended({1: replicas(1, 2)})))
    assert admin.listed(2) == {"t": [0, 1]}


# ---------------------------------------------------------------- more partitions


def more(admin: Administrator, count: int, *lists: tuple[int, ...], **also: bool) -> CreatePartitionsResponse:
    assignment = tuple(replicas(*brokers) for brokers in lists) or None
    request = CreatePartitionsRequest(topic="t", count=count, assignment=assignment, **also)
    return admin.ask(request, CreatePartitionsResponse)


def test_partitions_are_added_and_go_on_with_the_round() -> None:
    """The old ones stay as they are; the new ones are placed as if there had been that many at once."""
    admin, other = Administrator(), Administrator()
    admin.create("t", partitions=2, factor=2)
    other.create("t", partitions=7, factor=2)
    assert more(admin, 7).error is ErrorCode.NONE
    assert admin.value(keeper_paths.topic_path("t")) == other.value(keeper_paths.topic_path("t"))
    assert [admin.listed(broker) for broker in range(3)] == [{"t": list(range(7))}] * 3
    assert admin.state("t", 6) is not None


def test_partitions_are_added_where_one_says() -> None:
    """The assignment lists the new partitions only."""
    admin = Administrator()
    admin.create("t", partitions=1, factor=2)
    assert more(admin, 3, (2, 1), (1, 0)).error is ErrorCode.NONE
    assert admin.value(keeper_paths.topic_path("t")).partitions == {0: (0, 1), 1: (2, 1), 2: (1, 0)}


def test_validating_more_partitions_writes_nothing() -> None:
    """As for creation."""
    admin = Administrator()
    admin.create("t", factor=2)
    assert more(admin, 3, validate_only=True).error is ErrorCode.NONE
    assert len(admin.value(keeper_paths.topic_path("t")).partitions) == 1


@pytest.mark.parametrize(
    ("count", "lists", "error", "message"),
    [
        (2, (), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (10_003, (), *TOO_MANY_PARTITIONS),
        (2**31 - 1, (), *TOO_MANY_PARTITIONS),
        (
            1,
            (),
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            4,
            ((0, 1),),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            3,
            ((0, 8),),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unknown broker(s) in replica assignment: 8.",
        ),
        (
            3,
            ((0,),),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (3, ((0, 0),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica assignment found: [0, 0]"),
    ],
)
def test_more_partitions_are_refused(
    count: int, lists: tuple[tuple[int, ...], ...], error: ErrorCode, message: str
) -> None:
    """Never fewer, never the same; by hand only where they can be."""
    admin = Administrator()
    admin.create("t", partitions=2, factor=2)
    answer = more(admin, count, *lists)
    assert (answer.error, answer.message) == (error, message)
    assert len(admin.value(keeper_paths.topic_path("t")).partitions) == 2


def test_more_partitions_of_a_topic_that_does_not_exist() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION."""
    assert more(Administrator(), 3).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_more_partitions_of_a_topic_that_a_tool_left_without_any() -> None:
    """There is nothing to go on from, and nothing breaks."""
    admin = Administrator()
    admin.tool(topic_written_by_a_tool("t", {}))
    assert more(admin, 3).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.delete("t").error is ErrorCode.NONE
    assert not admin.exists(keeper_paths.topic_path("t"))


def test_a_keeper_without_the_standard_nodes_takes_no_topic() -> None:
    """A tool removed /config/topics: the administrator gets an error, and no half of a topic is left."""
    admin = Administrator()
    admin.tool(Delete(keeper_paths.TOPIC_CONFIGS))
    assert admin.create("t").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not admin.exists(keeper_paths.topic_path("t"))


def outcome(procedure: Procedure[A], *answers: Result) -> A:
    """What a procedure comes to if the keeper answers its calls so."""
    try:
        procedure.send(None)  # type: ignore[arg-type]  # what starts a generator
        for answer in answers:
            procedure.send(answer)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for more answers")


def test_a_topic_that_is_too_large_for_the_keeper_is_refused() -> None:
    """At once: the keeper would say the same the next time."""
    admin = Administrator()
    admin.create("t")
    machines = admin.core(0).controller.machines
    assert machines is not None
    too_large = Result(KeeperError.TOO_LARGE)
    created = outcome(
        create_topic(machines, CreateTopicRequest(topic="u", partitions=2, replication_factor=1)), too_large
    )
    assert created.error is ErrorCode.POLICY_VIOLATION
    node = Result(None, StoredNode(TopicNode({0: replicas(0)}), Stat(1, 0)))
    extended = outcome(
        create_partitions(machines, CreatePartitionsRequest(topic="t", count=9)), node, too_large
    )
    assert extended.error is ErrorCode.POLICY_VIOLATION
    assert admin.listed(0) == {"t": [0]}


def test_more_partitions_need_enough_brokers() -> None:
    """The replication factor is the topic's; without brokers for it nothing is placed."""
    admin = Administrator(Setup(brokers=2, keepers=3))
    admin.create("t", factor=2)
    admin.world.crash(1)
    admin.until(lambda: 1 not in admin.core(0).metadata.live_brokers)
    assert more(admin, 2).error is ErrorCode.INVALID_REPLICATION_FACTOR
