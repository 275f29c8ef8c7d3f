"""Settings of running brokers: each broker that obeys them hears of a change, and they survive a restart."""

from collections.abc import Mapping

import pytest
from tests.core.administrator import Administrator

from tidelog.core import keeper_paths, topic_configs
from tidelog.core.keeper_port import Create, Multi
from tidelog.core.topic_messages import (
    AlterBrokerConfigRequest,
    AlterBrokerConfigResponse,
    AlterTopicConfigRequest,
    AlterTopicConfigResponse,
)
from tidelog.wire.errors import ErrorCode

EVERY = keeper_paths.EVERY_BROKER
Values = Mapping[str, str]


class Obedient:
    """A cluster whose brokers obey settings."""

    def __init__(self) -> None:
        self.admin = Administrator()
        self.obeyed: dict[int, tuple[Values, Values]] = {}
        for broker in range(3):
            self.obey(broker)

    def obey(self, broker: int) -> None:
        def obey(own: Values, of_every_broker: Values) -> None:
            self.obeyed[broker] = own, of_every_broker

        self.admin.core(broker).obey_settings(obey)

    def alter(
        self, scope: str, values: dict[str, str | None], *, replace: bool = False, to: int = 1
    ) -> AlterBrokerConfigResponse:
        request = AlterBrokerConfigRequest(scope=scope, values=values, replace=replace)
        answer = self.admin.ask(request, AlterBrokerConfigResponse, to=to)
        assert answer.error is ErrorCode.NONE
        return answer


def test_a_broker_hears_of_its_own_settings_and_of_those_of_every_broker() -> None:
    cluster = Obedient()
    cluster.alter("2", {"a": "1", "b": "2"})
    assert cluster.obeyed == {2: ({"a": "1", "b": "2"}, {})}
    cluster.alter(EVERY, {"a": "3"})
    assert cluster.obeyed == {
        0: ({}, {"a": "3"}),
        1: ({}, {"a": "3"}),
        2: ({"a": "1", "b": "2"}, {"a": "3"}),
    }
    cluster.alter("2", {"a": None})
    assert cluster.obeyed[2] == ({"b": "2"}, {"a": "3"})
    cluster.alter("2", {"c": "4"}, replace=True)
    assert cluster.obeyed[2] == ({"c": "4"}, {"a": "3"})
    assert cluster.admin.value("/config/brokers/2") == {"c": "4"}
    assert cluster.admin.value("/config/brokers/<default>") == {"a": "3"}


def test_a_change_is_answered_when_the_broker_knows_the_changes_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of topics as well, whenever their notifications would arrive: here never."""
    cluster = Obedient()
    admin = cluster.admin
    admin.create("t")
    core = admin.core(2)
    monkeypatch.setattr(topic_configs.TopicConfigs, "changed", lambda _: None)
    alter = AlterTopicConfigRequest(topic="t", values={"min.insync.replicas": "2"})
    assert admin.ask(alter, AlterTopicConfigResponse, to=1).error is ErrorCode.NONE
    assert core.ctx.topic_config("t").min_insync_replicas == 1
    cluster.alter("2", {"a": "1"}, to=2)
    assert core.ctx.topic_config("t").min_insync_replicas == 2
    assert cluster.obeyed == {2: ({"a": "1"}, {})}


def test_to_remove_what_is_not_set_writes_nothing() -> None:
    cluster = Obedient()
    cluster.alter("1", {"a": None})
    assert not cluster.admin.exists("/config/brokers/1")
    assert cluster.obeyed == {}


def test_settings_survive_a_restart() -> None:
    cluster = Obedient()
    cluster.alter("2", {"a": "1"})
    cluster.alter(EVERY, {"b": "2"})
    cluster.admin.world.crash(2)
    cluster.admin.until(lambda: 2 not in cluster.admin.core(0).metadata.live_brokers)
    cluster.obeyed.clear()
    cluster.admin.world.start(2)
    cluster.obey(2)
    cluster.admin.world.settle()
    assert cluster.obeyed == {2: ({"a": "1"}, {"b": "2"})}


def test_a_tool_may_write_them_to_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a notification as Kafka's tools make it; also if so many follow that some are deleted."""
    monkeypatch.setattr(topic_configs, "NOTES_MAX", 4)
    cluster = Obedient()
    cluster.admin.tool(Create("/config/brokers/0", {"a": "0"}))
    assert cluster.obeyed == {}
    note = Create(keeper_paths.CONFIG_CHANGE_PREFIX, "brokers/0", sequential=True)
    cluster.admin.tool(note)
    assert cluster.obeyed == {0: ({"a": "0"}, {})}
    cluster.admin.world.cut([(0, f"keeper-{member}") for member in range(3)])
    for number in range(9):
        cluster.alter("0", {"a": str(number)}, to=1)
        cluster.admin.tool(Multi((Create(keeper_paths.CONFIG_CHANGE_PREFIX, "users/u", sequential=True),)))
    cluster.admin.world.heal()
    cluster.admin.until(lambda: cluster.obeyed[0] == ({"a": "8"}, {}))


def test_a_broker_that_obeys_none_reads_none() -> None:
    """The schedules of simulations stay as they were."""
    admin = Administrator()
    request = AlterBrokerConfigRequest(scope=EVERY, values={"a": "1"})
    assert admin.ask(request, AlterBrokerConfigResponse, to=1).error is ErrorCode.NONE
    assert [admin.core(broker)._configs.brokers.questions for broker in range(3)] == [(), (), ()]
    assert admin.value("/config/brokers/<default>") == {"a": "1"}


def test_an_alteration_without_the_keeper_is_answered_when_the_session_is_over() -> None:
    cluster = Obedient()
    admin = cluster.admin
    admin.world.cut([(1, f"keeper-{member}") for member in range(3)])
    number = admin.send(AlterBrokerConfigRequest(scope="1", values={"a": "1"}), to=1)
    admin.until(lambda: 1 not in admin.core(0).metadata.live_brokers)
    admin.world.heal()
    admin.until(lambda: number in admin.answers)
    assert admin.answer(number, AlterBrokerConfigResponse).error is ErrorCode.REQUEST_TIMED_OUT
