"""Questions about one group and about several (KIP-699, KIP-709): the same answers in every version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import Cluster, Topics
from tests.clients.test_groups_bad_input import Desk, coordinator, open_desk
from tests.groups.members import eventually

from tidelog.cluster.cluster import Cluster as Brokers
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

GROUP, SHARE = 0, 2
NONE = ErrorCode.NONE


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    return topics.new(partitions=2)


@pytest.fixture(scope="module")
def desk(cluster: Cluster, topic: str) -> Iterator[Desk]:
    """A group with a position in partition 0 of a topic, and a connection to its coordinator."""
    opened = open_desk(cluster, topic, f"group-{uuid.uuid4().hex[:12]}")
    with opened.client:
        opened.form()
        yield opened
        opened.leave(opened.member_id)


def elsewhere(cluster: Cluster, desk: Desk) -> str:
    """A group of another coordinator."""
    here = (desk.client.endpoint.host, desk.client.endpoint.port)
    names = (f"elsewhere-{number}" for number in range(100))
    return next(name for name in names if coordinator(cluster.bootstrap_servers, name) != here)


def find(client: Client, version: int, keys: list[str], kind: int = GROUP) -> list[Any]:
    """The answers, each with `error_code`, `node_id`, `host` and `port`."""
    if version >= 4:
        request = FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)
        return list(client.exchange(Api.FIND_COORDINATOR, version, request).coordinators)
    requests = [FindCoordinatorRequest(key=key, key_type=kind) for key in keys]
    return [client.exchange(Api.FIND_COORDINATOR, version, request) for request in requests]


def positions(client: Client, version: int, group: str, topics: dict[str, list[int]] | None) -> Any:
    """The error, and the positions by topic and partition."""
    asked = None
    if topics is not None:
        asked = [
            OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()
        ]
    request = OffsetFetchRequest(group_id=group, topics=asked)
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)])
    answer = client.exchange(Api.OFFSET_FETCH, version, request)
    if version >= 8:
        (answer,) = answer.groups
        assert answer.group_id == group
    found = {
        (topic.name, part.partition_index): part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
    }
    return answer.error_code, found


def test_coordinators_are_the_same_in_every_version(cluster: Cluster, desk: Desk) -> None:
    """One at a time up to version 3, several since."""
    keys = [desk.group, elsewhere(cluster, desk)]
    where = [coordinator(cluster.bootstrap_servers, key) for key in keys]
    for version in range(5):
        found = find(desk.client, version, keys)
        assert [(each.host, each.port) for each in found] == where
        assert [each.error_code for each in found] == [NONE, NONE]
    assert [each.key for each in find(desk.client, 4, keys)] == keys
    assert find(desk.client, 4, []) == []


@pytest.mark.parametrize("version", range(1, 5))
def test_coordinators_of_an_unknown_kind(desk: Desk, version: int) -> None:
    """INVALID_REQUEST for each, and no coordinator."""
    for kind in (SHARE, -1, 127):
        found = find(desk.client, version, ["a", "b"], kind)
        assert [(each.error_code, each.node_id, each.port) for each in found] == [
            (ErrorCode.INVALID_REQUEST, -1, -1)
        ] * 2


@pytest.mark.parametrize("version", range(1, 9))
def test_positions_are_the_same_in_every_version(desk: Desk, topic: str, version: int) -> None:
    """Where there is none it is -1; null, where it is allowed, is all that there are."""
    asked = {topic: [0, 1], "no-such-topic": [7]}
    known = {(topic, 0): 7, (topic, 1): -1, ("no-such-topic", 7): -1}
    assert positions(desk.client, version, desk.group, asked) == (NONE, known)
    if version >= 2:
        assert positions(desk.client, version, desk.group, None) == (NONE, {(topic, 0): 7})
        assert positions(desk.client, version, "never-heard-of", None)[1] == {}


def test_several_groups_are_answered_each_for_itself(cluster: Cluster, desk: Desk, topic: str) -> None:
    """In the order of the request: its own error and its own positions, or none with an error."""
    there = elsewhere(cluster, desk)
    asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=there, topics=asked),
            OffsetFetchRequestGroup(group_id=desk.group, topics=asked),
            OffsetFetchRequestGroup(group_id=desk.group, topics=None),
            OffsetFetchRequestGroup(group_id=desk.group, topics=[]),
        ]
    )
    answers = desk.client.ask(Api.OFFSET_FETCH, request).groups
    assert [(answer.group_id, answer.error_code, len(answer.topics)) for answer in answers] == [
        (there, ErrorCode.NOT_COORDINATOR, 0),
        (desk.group, NONE, 1),
        (desk.group, NONE, 1),
        (desk.group, NONE, 0),
    ]
    assert desk.client.ask(Api.OFFSET_FETCH, OffsetFetchRequest()).groups == []


def test_the_first_question_of_a_cluster_may_be_for_several(tmp_path: Path) -> None:
    """It makes the topic of the groups, and is answered when there are coordinators for all."""
    with Brokers(ClusterSpec(brokers=1), tmp_path / "data") as fresh:

        def found() -> bool:
            with Client.to(fresh.bootstrap_servers) as client:
                answers = find(client, 4, ["a", "b", "c"])
            return [answer.error_code for answer in answers] == [NONE] * 3

        eventually(found)
