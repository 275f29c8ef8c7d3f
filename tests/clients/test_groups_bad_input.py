"""What no well-behaved member sends: each request gets Kafka's error code, and the group does not notice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clients.conftest import Cluster, Topics
from tests.groups.members import eventually

from tidelog.kafka_client.blocking import Client, Unreachable
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)

METADATA_BYTES_MAX = 4_096
RANGE = [join_group.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")]


@dataclass
class Desk:
    """A group of one member with a position, and a connection to its coordinator."""

    client: Client
    group: str
    topic: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    assignment: bytes = b"mine"

    def join(self, **other: Any) -> Any:
        values = {
            "group_id": self.group,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 6_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **other,
        }
        return self.client.ask(Api.JOIN_GROUP, join_group.JoinGroupRequest(**values))

    def form(self) -> None:
        answer = self.join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.join()
        assert answer.error_code == ErrorCode.NONE
        self.member_id, self.generation = answer.member_id, answer.generation_id
        share = sync_group.SyncGroupRequestAssignment(member_id=self.member_id, assignment=self.assignment)
        assert self.sync(assignments=[share]).error_code == ErrorCode.NONE
        assert self.commit() == ErrorCode.NONE

    def sync(self, **other: Any) -> Any:
        values = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
            **other,
        }
        return self.client.ask(Api.SYNC_GROUP, sync_group.SyncGroupRequest(**values))

    def heartbeat(self, **other: Any) -> int:
        values = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            **other,
        }
        answer = self.client.ask(Api.HEARTBEAT, heartbeat.HeartbeatRequest(**values))
        return int(answer.error_code)

    def commit(
        self,
        offset: int = 7,
        *,
        topic: str | None = None,
        partition: int = 0,
        metadata: str = "",
        **other: Any,
    ) -> int:
        part = offset_commit.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        values = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [offset_commit.OffsetCommitRequestTopic(name=topic or self.topic, partitions=[part])],
            **other,
        }
        answer = self.client.ask(Api.OFFSET_COMMIT, offset_commit.OffsetCommitRequest(**values))
        return int(answer.topics[0].partitions[0].error_code)

    def position(self) -> tuple[int, str]:
        wanted = offset_fetch.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])
        request = offset_fetch.OffsetFetchRequest(groups=[group])
        (answer,) = self.client.ask(Api.OFFSET_FETCH, request).groups
        assert (answer.group_id, answer.error_code) == (self.group, ErrorCode.NONE)
        part = answer.topics[0].partitions[0]
        return part.committed_offset, part.metadata

    def leave(self, member_id: str, instance_id: str | None = None) -> int:
        leaving = leave_group.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        request = leave_group.LeaveGroupRequest(group_id=self.group, members=[leaving])
        answer = self.client.ask(Api.LEAVE_GROUP, request)
        return int(answer.error_code or answer.members[0].error_code)

    def describe(self) -> Any:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group])
        return self.client.ask(Api.DESCRIBE_GROUPS, request).groups[0]

    def check_unharmed(self) -> None:
        described = self.describe()
        assert described.group_state == "Stable"
        assert [member.member_id for member in described.members] == [self.member_id]
        assert self.heartbeat() == ErrorCode.NONE
        assert self.sync().assignment == self.assignment


def coordinator(servers: str, group: str) -> tuple[str, int]:
    found: list[tuple[str, int]] = []

    def ask() -> bool:
        with Client.to(servers) as client:
            request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group])
            (answer,) = client.ask(Api.FIND_COORDINATOR, request).coordinators
        if answer.error_code == ErrorCode.NONE:
            found.append((answer.host, answer.port))
        return bool(found)

    eventually(ask)
    return found[0]


def ready(desk: Desk) -> bool:
    """Whether the coordinator knows that it is one: it may hear of it after others do."""
    return desk.describe().error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    return topics.new()


def open_desk(cluster: Cluster, topic: str, group: str, instance_id: str | None = None) -> Desk:
    client = Client(*coordinator(cluster.bootstrap_servers, group))
    desk = Desk(client, group, topic, instance_id=instance_id)
    eventually(lambda: ready(desk))
    return desk


@pytest.fixture
def desk(cluster: Cluster, topic: str) -> Iterator[Desk]:
    """Afterwards the group is as it was, unless the test says otherwise."""
    opened = open_desk(cluster, topic, f"group-{uuid.uuid4().hex[:12]}")
    with opened.client:
        opened.form()
        yield opened
        opened.check_unharmed()
        assert opened.leave(opened.member_id) == ErrorCode.NONE


def test_illegal_generations(desk: Desk) -> None:
    """Of the past, of the future, and none at all."""
    for generation in (desk.generation - 1, desk.generation + 1, -1):
        assert desk.heartbeat(generation_id=generation) == ErrorCode.ILLEGAL_GENERATION
        assert desk.sync(generation_id=generation).error_code == ErrorCode.ILLEGAL_GENERATION
        assert desk.commit(99, generation_id_or_member_epoch=generation) == ErrorCode.ILLEGAL_GENERATION
    assert desk.position() == (7, "")


def test_unknown_members(desk: Desk) -> None:
    """No client that has not joined: with a made-up id, or with none."""
    for member_id in ("nobody", ""):
        assert desk.heartbeat(member_id=member_id) == ErrorCode.UNKNOWN_MEMBER_ID
        assert desk.sync(member_id=member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert desk.commit(99, member_id=member_id) == ErrorCode.UNKNOWN_MEMBER_ID
        assert desk.leave(member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(member_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.position() == (7, "")


def test_syncs_name_their_protocol(desk: Desk) -> None:
    """A member that believes in another protocol, or says nothing of it, is not given a share."""
    for wrong in ({"protocol_name": "other"}, {"protocol_type": "connect"}, {"protocol_name": None}):
        assert desk.sync(**wrong).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_joins_that_cannot_be(desk: Desk) -> None:
    """A protocol that no other member has, a session that is too short or too long, no protocol at all."""
    other = [join_group.JoinGroupRequestProtocol(name="other", metadata=b"")]
    for wrong, error in (
        ({"member_id": "", "protocols": other}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "", "protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "", "protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ):
        assert desk.join(**wrong).error_code == error


def test_metadata_of_the_largest_size_and_one_byte_more(desk: Desk) -> None:
    """The first is kept as it is, the second is refused and changes nothing."""
    largest = "x" * METADATA_BYTES_MAX
    assert desk.commit(8, metadata=largest) == ErrorCode.NONE
    assert desk.commit(9, metadata=largest + "x") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert desk.position() == (8, largest)


def test_commits_for_what_does_not_exist(desk: Desk) -> None:
    """An unknown topic or partition has no position."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.commit(9, topic="no-such-topic") == unknown
    assert desk.commit(9, partition=77) == unknown
    assert desk.commit(9, partition=-1) == unknown
    assert desk.position() == (7, "")


def test_a_group_id_of_32_kb(cluster: Cluster, topic: str) -> None:
    """The longest name that a record can hold makes a group like any other."""
    desk = open_desk(cluster, topic, uuid.uuid4().hex + "x" * (32_767 - 32))
    with desk.client:
        desk.form()
        desk.check_unharmed()
        assert desk.leave(desk.member_id) == ErrorCode.NONE


def test_a_group_id_of_one_byte_more(cluster: Cluster, topic: str) -> None:
    """It is refused with a code that says why. (Apache Kafka hangs up.)"""
    client = Client.to(cluster.bootstrap_servers)
    desk = Desk(client, "x" * 32_768, topic, generation=1, member_id="m")
    with client, suppress(Unreachable):
        assert desk.join().error_code == ErrorCode.INVALID_GROUP_ID
        assert desk.heartbeat() == ErrorCode.INVALID_GROUP_ID
        assert desk.sync().error_code == ErrorCode.INVALID_GROUP_ID
        assert desk.commit(9) == ErrorCode.INVALID_GROUP_ID


def test_a_fenced_member(cluster: Cluster, topic: str) -> None:
    """After another process has come under its name, the first one can neither commit nor leave for it."""
    desk = open_desk(cluster, topic, f"group-{uuid.uuid4().hex[:12]}", "static")
    with desk.client:
        desk.form()
        old = desk.member_id
        desk.member_id = desk.join(member_id="").member_id
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert desk.commit(99, member_id=old) == fenced
        assert desk.heartbeat(member_id=old) == fenced
        assert desk.sync(member_id=old).error_code == fenced
        assert desk.join(member_id=old).error_code == fenced
        assert desk.leave(old, "static") == fenced
        assert desk.position() == (7, "")
        desk.check_unharmed()
        assert desk.leave("", "static") == ErrorCode.NONE


def test_the_wrong_broker(cluster: Cluster, desk: Desk) -> None:
    """Any other broker says that it is not the coordinator."""
    here = desk.client.endpoint
    for address in cluster.brokers:
        if tuple(here) != address:
            with Client(*address) as other:
                elsewhere = Desk(other, desk.group, desk.topic, desk.member_id, desk.generation)
                assert elsewhere.heartbeat() == ErrorCode.NOT_COORDINATOR
                assert elsewhere.commit(99) == ErrorCode.NOT_COORDINATOR
                assert elsewhere.describe().error_code == ErrorCode.NOT_COORDINATOR
    assert desk.position() == (7, "")
