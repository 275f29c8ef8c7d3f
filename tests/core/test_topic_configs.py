"""Settings of topics: every broker obeys them before it leads, and hears of each change however late."""

import pytest
from tests.core.administrator import Administrator, replicas

from tidelog.core import keeper_paths, topic_configs
from tidelog.core.assignments import TopicNode
from tidelog.core.config import BrokerConfig
from tidelog.core.events import BecameLeader, TopicConfigured
from tidelog.core.keeper_port import Create, Multi, SetValue
from tidelog.core.messages import ACKS_ALL, ProduceRequest, ProduceResponse
from tidelog.core.topic_configs import topic_config
from tidelog.core.topic_messages import (
    AlterTopicConfigRequest,
    AlterTopicConfigResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DescribeTopicConfigRequest,
    DescribeTopicConfigResponse,
)
from tidelog.core.types import TopicConfig, TopicPartition
from tidelog.faults.places import Channel
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

TWO_IN_SYNC = {"min.insync.replicas": "2"}


def alter(
    admin: Administrator, values: dict[str, str | None], *, replace: bool = False, to: int = 1
) -> AlterTopicConfigResponse:
    return admin.ask(
        AlterTopicConfigRequest(topic="t", values=values, replace=replace), AlterTopicConfigResponse, to=to
    )


def known(admin: Administrator, topic: str = "t") -> list[int]:
    """min.insync.replicas of a topic as each running broker obeys it."""
    cores = [process.core for process in admin.world.processes]
    return [core.ctx.topic_config(topic).min_insync_replicas for core in cores if core is not None]


def cut_off(admin: Administrator, broker: int) -> None:
    admin.world.cut([(broker, f"keeper-{member}") for member in range(3)])


# ---------------------------------------------------------------- what the values mean


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, TopicConfig(1, False)),
        ({"min.insync.replicas": "2"}, TopicConfig(2, False)),
        ({"unclean.leader.election.enable": "true"}, TopicConfig(1, True)),
        ({"unclean.leader.election.enable": "TRUE", "retention.ms": "1"}, TopicConfig(1, True)),
        ({"min.insync.replicas": " 2 ", "unclean.leader.election.enable": " true"}, TopicConfig(2, True)),
        ({"min.insync.replicas": "9" * 5_000}, TopicConfig(1, False)),
        ({"min.insync.replicas": "two", "unclean.leader.election.enable": "yes"}, TopicConfig(1, False)),
    ],
)
def test_what_replication_obeys(values: dict[str, str], expected: TopicConfig) -> None:
    """Two settings; the others are storage's; an invalid value counts as not set."""
    assert topic_config(values, BrokerConfig()) == expected


def test_a_topic_without_settings_has_the_brokers_defaults() -> None:
    """Said by the topic, else by the broker."""
    config = BrokerConfig(min_insync_replicas=2, unclean_leader_election_enable=True)
    assert topic_config({}, config) == TopicConfig(2, True)
    off = {"unclean.leader.election.enable": "false", "min.insync.replicas": "1"}
    assert topic_config(off, config) == TopicConfig(1, False)
    admin = Administrator(Setup(brokers=3, config=config))
    assert known(admin, "any") == [2, 2, 2]


# ---------------------------------------------------------------- settings come first


def test_a_broker_knows_the_settings_before_it_leads() -> None:
    """Not a moment passes in which a new leader would acknowledge too much."""
    admin = Administrator()
    admin.create("t", config=TWO_IN_SYNC)
    leading = next(i for i, event in enumerate(admin.events) if isinstance(event, BecameLeader))
    configured = [event.broker for event in admin.events[:leading] if isinstance(event, TopicConfigured)]
    assert admin.events[leading].broker in configured
    assert known(admin) == [2, 2, 2]
    admin.world.crash(1)
    admin.world.crash(2)
    admin.until(lambda: admin.core(0).replicas[TopicPartition("t", 0)].leader_epoch == 2)
    request = ProduceRequest(TopicPartition("t", 0), ACKS_ALL, MemoryBatch("a"), 5_000)
    assert admin.ask(request, ProduceResponse, to=0).error is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_broker_reads_all_settings_when_it_starts() -> None:
    """Also of topics without a replica on it, and without a notification."""
    admin = Administrator()
    admin.create("t", config=TWO_IN_SYNC)
    admin.ask(
        CreateTopicRequest(topic="u", assignment={0: replicas(0)}, config=TWO_IN_SYNC), CreateTopicResponse
    )
    admin.world.crash(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    admin.world.start(2)
    admin.world.settle()
    assert (known(admin)[2], known(admin, "u")[2]) == (2, 2)


def test_a_topic_created_anew_does_not_inherit_settings() -> None:
    """Neither where it had replicas nor where it gets them now, even if a note of the old life is late."""
    admin = Administrator()
    admin.ask(
        CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}, config=TWO_IN_SYNC), CreateTopicResponse
    )
    alter(admin, {"retention.ms": "1"})
    for broker in range(3):
        admin.world.network.hold(Channel("keeper-reply", "keeper", broker))
    alter_number = admin.send(AlterTopicConfigRequest(topic="t", values={"retention.ms": "2"}), to=1)
    admin.world.settle()
    admin.world.network.release_everything()
    admin.world.settle()
    assert admin.answer(alter_number, AlterTopicConfigResponse).error is ErrorCode.NONE
    assert known(admin) == [2, 2, 2]
    admin.delete("t")
    assert known(admin) == [1, 1, 1]
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(2, 0)}), CreateTopicResponse)
    assert known(admin) == [1, 1, 1]
    assert admin.value(keeper_paths.config_path("t")) == {}


def test_a_late_note_about_a_topic_under_deletion_says_nothing_of_its_successor() -> None:
    """A broker hears of a change while the topic is on its way out. It reads the settings again before it
    leads the next topic of that name."""
    admin = Administrator()
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}), CreateTopicResponse)
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.world.network.hold(Channel("control-reply", 1, 0))
    alter(admin, {"min.insync.replicas": "3"}, to=0)
    admin.delete("t")
    admin.world.network.release(Channel("keeper-reply", "keeper", 2))
    admin.world.settle()
    assert known(admin)[2] == 3
    admin.world.network.release_everything()
    admin.world.settle()
    assert not admin.exists(keeper_paths.topic_path("t"))
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(2, 0)}), CreateTopicResponse)
    assert known(admin)[2] == 1


def test_a_topic_that_was_created_anew_elsewhere_is_read_before_a_part_of_it_comes_here() -> None:
    """The same, but the broker hears of the new topic before it gets a partition of it."""
    admin = Administrator()
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}), CreateTopicResponse)
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.world.network.hold(Channel("control-reply", 1, 0))
    alter(admin, {"min.insync.replicas": "3"}, to=0)
    admin.delete("t")
    admin.world.network.release(Channel("keeper-reply", "keeper", 2))
    admin.world.settle()
    admin.world.network.release_everything()
    admin.world.settle()
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1)}), CreateTopicResponse)
    admin.ask(
        CreatePartitionsRequest(topic="t", count=2, assignment=(replicas(2, 0),)), CreatePartitionsResponse
    )
    assert (known(admin)[2], TopicPartition("t", 1) in admin.core(2).replicas) == (3, False)
    admin.world.network.release_everything()
    admin.world.settle()
    assert (known(admin)[2], TopicPartition("t", 1) in admin.core(2).replicas) == (1, True)


def test_every_broker_knows_every_topic() -> None:
    """The controller elects for topics it holds nothing of, and must know what they allow; whether it made
    them itself or a tool did."""
    admin = Administrator()
    config = {"unclean.leader.election.enable": "true"}
    admin.ask(
        CreateTopicRequest(topic="t", assignment={0: replicas(1, 2)}, config=config), CreateTopicResponse
    )
    admin.tool(Create(keeper_paths.config_path("u"), config))
    admin.tool(Create(keeper_paths.topic_path("u"), TopicNode({0: replicas(1)})))
    for topic in ("t", "u"):
        assert all(admin.core(b).ctx.topic_config(topic).unclean_leader_election for b in range(3))
    admin.world.crash(2)
    admin.until(lambda: (state := admin.state("t")) is not None and state.isr == (1,))
    admin.world.crash(1)
    admin.until(lambda: (state := admin.state("t")) is not None and state.leader == -1)
    admin.world.start(2)
    admin.until(lambda: (state := admin.state("t")) is not None and state.leader == 2)


def test_a_repeated_request_is_obeyed_once() -> None:
    """LeaderAndIsr waits for the settings when its connection breaks, and is sent again. Were both obeyed,
    the second could come after a deletion and bring the replica back."""
    admin = Administrator()
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.create("t")
    admin.world.reset_connections(0, 2)
    admin.world.settle()
    admin.send(DeleteTopicRequest(topic="t"))
    admin.world.settle()
    admin.world.network.release_everything()
    admin.until(lambda: bool(admin.core(2).replicas))
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.world.settle()
    admin.world.network.release_everything()
    admin.world.advance(10_000)
    assert not admin.exists(keeper_paths.topic_path("t"))
    assert [admin.logs(broker) for broker in range(3)] == [[], [], []]


def test_after_a_lost_session_nothing_is_led_under_old_settings() -> None:
    """The broker is registered again and receives its roles, and waits for the settings before it takes
    them."""
    admin = Administrator()
    admin.create("t", partitions=3)
    cut_off(admin, 2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    alter(admin, {"min.insync.replicas": "2"})
    former = admin.core(2).ctx.broker_epoch
    admin.world.heal()
    admin.until(lambda: admin.core(2).ctx.broker_epoch != former)
    admin.world.network.hold(Channel("keeper-reply", "keeper", 2))
    admin.world.settle()
    replica = admin.core(2).replicas[TopicPartition("t", 0)]
    assert (replica.leader_epoch, known(admin)[2]) == (0, 1)
    admin.world.network.release_everything()
    admin.world.settle()
    assert (replica.leader_epoch, known(admin)[2]) == (1, 2)


# ---------------------------------------------------------------- changes


def test_a_change_reaches_every_broker() -> None:
    """Written by any broker: all use it, and each emits all values as an event."""
    admin = Administrator()
    admin.create("t", config={"retention.ms": "1"})
    assert alter(admin, {"min.insync.replicas": "3", "retention.ms": None}).error is ErrorCode.NONE
    assert known(admin) == [3, 3, 3]
    told = {event.broker: event.values for event in admin.happened(TopicConfigured)}
    assert told == {broker: {"min.insync.replicas": "3"} for broker in range(3)}


def test_settings_change_one_by_one_or_all_at_once() -> None:
    """IncrementalAlterConfigs and AlterConfigs; DescribeConfigs reads what is written."""
    admin = Administrator()
    admin.create("t", config={"a": "1", "b": "2"})
    for values, replace, expected in (
        ({"b": "3", "c": "4"}, False, {"a": "1", "b": "3", "c": "4"}),
        ({"a": None, "never": None}, False, {"b": "3", "c": "4"}),
        ({"d": "5", "b": None}, True, {"d": "5"}),
        ({}, True, {}),
    ):
        assert alter(admin, values, replace=replace).error is ErrorCode.NONE  # type: ignore[arg-type]
        answer = admin.ask(DescribeTopicConfigRequest(topic="t"), DescribeTopicConfigResponse, to=2)
        assert answer == DescribeTopicConfigResponse(topic="t", error=ErrorCode.NONE, values=expected)


def test_a_change_that_changes_nothing_is_not_announced() -> None:
    """No write, no note."""
    admin = Administrator()
    admin.create("t", config={"a": "1"})
    assert alter(admin, {"a": "1"}).error is ErrorCode.NONE
    assert admin.value(f"{keeper_paths.CONFIG_CHANGE_PREFIX}0000000000") is None


def test_settings_of_a_topic_that_does_not_exist() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION, and nothing is left in the keeper."""
    admin = Administrator()
    assert alter(admin, {"a": "1"}).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = admin.ask(DescribeTopicConfigRequest(topic="t"), DescribeTopicConfigResponse)
    assert answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not admin.exists(keeper_paths.config_path("t"))


def test_a_topic_without_a_node_for_settings_gets_one() -> None:
    """A tool created it and wrote none."""
    admin = Administrator()
    admin.tool(Create(keeper_paths.topic_path("t"), TopicNode({0: replicas(0)})))
    assert alter(admin, {"min.insync.replicas": "2"}).error is ErrorCode.NONE
    assert known(admin) == [2, 2, 2]


def test_no_settings_are_left_of_a_topic_that_goes_meanwhile() -> None:
    """The topic is there when the broker looks and gone when it writes: the write is refused as a whole."""
    admin = Administrator()
    admin.tool(Create(keeper_paths.topic_path("t"), TopicNode({0: replicas(0)})))
    admin.world.network.hold(Channel("keeper-reply", "keeper", 1))
    number = admin.send(AlterTopicConfigRequest(topic="t", values={"a": "1"}), to=1)
    admin.world.settle()
    admin.delete("t")
    assert not admin.exists(keeper_paths.topic_path("t"))
    admin.world.network.release_everything()
    admin.world.settle()
    answer = admin.answer(number, AlterTopicConfigResponse)
    assert answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not admin.exists(keeper_paths.config_path("t"))


def test_changes_at_the_same_time_are_both_made() -> None:
    """Two brokers write at once: one of them looks again."""
    admin = Administrator()
    admin.create("t")
    numbers = [
        admin.send(AlterTopicConfigRequest(topic="t", values={name: "1"}), to=broker)
        for broker, name in enumerate(("a", "b", "c"))
    ]
    admin.world.settle()
    assert {admin.answer(n, AlterTopicConfigResponse).error for n in numbers} == {ErrorCode.NONE}
    assert admin.value(keeper_paths.config_path("t")) == {"a": "1", "b": "1", "c": "1"}


def test_a_tool_changes_settings_by_a_note() -> None:
    """kafka-configs writes the node and the note itself; notes about other things are ignored."""
    admin = Administrator()
    admin.create("t")
    note = keeper_paths.CONFIG_CHANGE_PREFIX
    admin.tool(
        Multi(
            (
                SetValue(keeper_paths.config_path("t"), TWO_IN_SYNC),
                Create(note, "clients/c", sequential=True),
                Create(note, None, sequential=True),
                Create(note, "topics/t", sequential=True),
            )
        )
    )
    assert known(admin) == [2, 2, 2]


def test_permission_for_an_unclean_election_elects() -> None:
    """The controller hears of the change like every broker, and tries what was offline."""
    admin = Administrator()
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(1, 2)}), CreateTopicResponse)
    admin.world.crash(2)
    admin.until(lambda: (state := admin.state("t")) is not None and state.isr == (1,))
    admin.world.crash(1)
    admin.until(lambda: (state := admin.state("t")) is not None and state.leader == -1)
    admin.world.start(2)
    admin.world.advance(5_000)
    assert alter(admin, {"unclean.leader.election.enable": "true"}, to=2).error is ErrorCode.NONE
    state = admin.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (2, (2,))


# ---------------------------------------------------------------- missed changes


def test_a_change_while_the_connection_to_the_keeper_was_broken() -> None:
    """Within the session: the keeper tells what was missed."""
    admin = Administrator()
    admin.create("t")
    cut_off(admin, 2)
    alter(admin, {"min.insync.replicas": "2"})
    assert known(admin) == [2, 2, 1]
    admin.world.heal()
    admin.world.settle()
    assert known(admin) == [2, 2, 2]


def test_a_change_while_the_session_was_lost() -> None:
    """All settings are read again before anything is led in the new session."""
    admin = Administrator()
    admin.create("t")
    cut_off(admin, 2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    alter(admin, {"min.insync.replicas": "2"})
    admin.world.heal()
    admin.world.settle()
    assert known(admin) == [2, 2, 2]


def test_notes_that_were_cleared_away_unread_are_noticed() -> None:
    """More changes than notes are kept, all while a broker is cut off: the numbers have a gap, so it reads
    everything again."""
    admin = Administrator()
    admin.create("t")
    admin.create("u")
    cut_off(admin, 2)
    alter(admin, {"min.insync.replicas": "3"})
    for number in range(topic_configs.NOTES_MAX * 2):
        request = AlterTopicConfigRequest(topic="u", values={"retention.ms": str(number)})
        assert admin.ask(request, AlterTopicConfigResponse, to=1).error is ErrorCode.NONE
    kept = [
        path
        for path in admin.world.quorum.tree.dump()["nodes"]
        if path.startswith(keeper_paths.CONFIG_CHANGES)
    ]
    assert len(kept) <= topic_configs.NOTES_MAX + 1
    assert known(admin) == [3, 3, 1]
    admin.world.heal()
    admin.world.settle()
    assert known(admin) == [3, 3, 3]


@pytest.mark.parametrize("lost", range(1, 4))
def test_a_lost_answer_of_the_keeper_is_no_second_change(lost: int) -> None:
    """The repeated write finds its own traces; the change is made once and announced once."""
    admin = Administrator()
    admin.create("t")
    number = admin.send(AlterTopicConfigRequest(topic="t", values={"min.insync.replicas": "2"}), to=1)
    answers = 0
    while answers < lost and (head := admin.world.network.earliest(())):
        due, channel = head
        admin.world.now = max(admin.world.now, due)
        answers += channel == Channel("keeper-reply", "keeper", 1)
        if answers < lost:
            admin.world.deliver(channel)
    cut_off(admin, 1)
    admin.world.heal()
    admin.world.settle()
    assert admin.answer(number, AlterTopicConfigResponse).error is ErrorCode.NONE
    assert known(admin) == [2, 2, 2]
    assert not admin.exists(f"{keeper_paths.CONFIG_CHANGE_PREFIX}0000000001")


def test_a_change_whose_session_ends_is_answered() -> None:
    """It is unknown whether it was made: REQUEST_TIMED_OUT."""
    admin = Administrator()
    admin.create("t")
    cut_off(admin, 1)
    numbers = [
        admin.send(AlterTopicConfigRequest(topic="t", values={"a": "1"}), to=1),
        admin.send(DescribeTopicConfigRequest(topic="t"), to=1),
    ]
    admin.world.advance(20_000)
    admin.world.heal()
    admin.world.settle()
    assert admin.answer(numbers[0], AlterTopicConfigResponse).error is ErrorCode.REQUEST_TIMED_OUT
    assert admin.answer(numbers[1], DescribeTopicConfigResponse).error is ErrorCode.REQUEST_TIMED_OUT


# ---------------------------------------------------------------- eligible leader replicas


@pytest.mark.parametrize(
    ("values", "elr"),
    [
        ({"min.insync.replicas": "2"}, (2,)),  # as it is: nothing is written
        ({"min.insync.replicas": None}, ()),
        ({"min.insync.replicas": "3"}, ()),
        ({"unclean.leader.election.enable": "false"}, (2,)),
    ],
)
def test_min_isr_that_is_set_or_removed_ends_eligibility(
    values: dict[str, str | None], elr: tuple[int, ...]
) -> None:
    """Also where the broker's own setting is the same: Kafka 4.1 clears the eligible replicas with each
    record of this setting, and writes one if the topic's own value changes."""
    admin = Administrator(Setup(brokers=3, generation="elr", config=BrokerConfig(min_insync_replicas=2)))
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(0, 1, 2)}), CreateTopicResponse)
    assert alter(admin, {**TWO_IN_SYNC}).error is ErrorCode.NONE
    for broker in (1, 2):
        admin.world.stop(broker)
        admin.world.settle()
    before = admin.state("t")
    assert before is not None
    assert (before.isr, before.elr) == ((0,), (2,))
    alter(admin, values, to=0)
    after = admin.state("t")
    assert after is not None
    assert (after.isr, after.elr) == ((0,), elr)
    assert after.leader_epoch == before.leader_epoch
