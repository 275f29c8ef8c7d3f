"""Consumer groups of a cluster, tidelog or Apache Kafka: their coordinator, members and committed offsets.

Every question is asked on a connection of its own, because the coordinator changes in fail-overs. An answer
that says "not now" is None: callers ask again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from tidelog.kafka_client.blocking import Client, ClientError, Unreachable, error_name
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Address = tuple[str, int]
TIMEOUT_SECONDS = 5.0
_PATIENCE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05
_INT16, _INT32 = Struct(">h"), Struct(">i")
_VERSION_BYTES: Final = 2


def coordinator(servers: str, group: str) -> tuple[int, Address] | None:
    """The broker that coordinates a group, and where it is; None if there is none now."""
    with Client.to(servers, TIMEOUT_SECONDS) as client:
        answer = client.ask(Api.FIND_COORDINATOR, FindCoordinatorRequest(key=group, coordinator_keys=[group]))
    found = answer.coordinators[0] if answer.coordinators else answer
    return None if found.error_code else (found.node_id, (found.host, found.port))


def described(servers: str, group: str) -> DescribedGroup | None:
    """The state and members of a group; None while no coordinator answers for it."""
    at = coordinator(servers, group)
    if at is None:
        return None
    with Client(*at[1], TIMEOUT_SECONDS) as client:
        answer = client.ask(Api.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]))
    found: DescribedGroup = answer.groups[0]
    return None if found.error_code else found


def committed(servers: str, group: str) -> dict[tuple[str, int], int] | None:
    """The committed offset of every partition of a group; None while no coordinator answers for it."""
    at = coordinator(servers, group)
    if at is None:
        return None
    with Client(*at[1], TIMEOUT_SECONDS) as client:
        request = OffsetFetchRequest(
            group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
        )
        answer = client.ask(Api.OFFSET_FETCH, request)
    found = answer.groups[0] if answer.groups else answer
    if found.error_code:
        return None
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in found.topics
        for part in topic.partitions
        if part.error_code == ErrorCode.NONE and part.committed_offset >= 0
    }


# ---------------------------------------------------------------- for commands


def listed(servers: str) -> list[ListedGroup]:
    """All groups, by name: each broker knows those that it coordinates. Raises `ClientError`."""
    with Client.to(servers, TIMEOUT_SECONDS) as client:
        brokers = client.metadata([]).brokers
    found: dict[str, ListedGroup] = {}
    for broker in brokers:
        try:
            with Client(broker.host, broker.port, TIMEOUT_SECONDS) as client:
                answer = client.ask(Api.LIST_GROUPS, ListGroupsRequest())
        except Unreachable:  # its groups move to another broker
            continue
        found |= {group.group_id: group for group in answer.groups}
    return [found[name] for name in sorted(found)]


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets for a group without joining it. Raises `ClientError`, for example if it has members."""
    parts = [
        OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        for partition, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group, member_id="", topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)]
    )
    answer = _asked(servers, group, Api.OFFSET_COMMIT, request)
    for part in (part for found in answer.topics for part in found.partitions):
        if part.error_code:
            raise ClientError(f"group {group}: {_meaning(part.error_code)}")


def delete(servers: str, group: str) -> None:
    """Delete a group and its committed offsets. Raises `ClientError`."""
    (result,) = _asked(servers, group, Api.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group])).results
    if result.error_code:
        raise ClientError(f"group {group}: {_meaning(result.error_code)}")


def _asked(servers: str, group: str, api: Api, request: Any) -> Any:
    """The answer of a group's coordinator. Raises `ClientError` if there is none for a while."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (at := coordinator(servers, group)) is None:
        if time.monotonic() > deadline:
            raise ClientError(f"group {group}: no broker coordinates it now")
        time.sleep(_POLL_SECONDS)
    with Client(*at[1], TIMEOUT_SECONDS) as client:
        return client.ask(api, request)


def _meaning(code: int) -> str:
    known = {
        ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
        ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
        ErrorCode.UNKNOWN_MEMBER_ID: "the group has members: stop them first",
        ErrorCode.REBALANCE_IN_PROGRESS: "the group has members: stop them first",
        ErrorCode.INVALID_GROUP_ID: "this is not a valid group name",
    }
    name = error_name(code)
    return f"{known[ErrorCode(code)]} ({name})" if code in known else name


# ---------------------------------------------------------------- what members own


def assigned(assignment: bytes) -> dict[str, list[int]]:
    """The partitions in the assignment of a member that uses the consumer protocol. Empty if it cannot be
    read: other kinds of groups (Kafka Connect) have formats of their own."""
    try:
        found: dict[str, list[int]] = {}
        (topics,) = _INT32.unpack_from(assignment, _VERSION_BYTES)
        at = _VERSION_BYTES + _INT32.size
        for _ in range(topics):
            (length,) = _INT16.unpack_from(assignment, at)
            at += _INT16.size
            name = assignment[at : at + length].decode()
            at += length
            (count,) = _INT32.unpack_from(assignment, at)
            if not 0 <= count <= (len(assignment) - at) // _INT32.size:
                return {}
            at += _INT32.size
            found[name] = [number for (number,) in _INT32.iter_unpack(assignment[at : at + 4 * count])]
            at += 4 * count
    except (StructError, UnicodeDecodeError):
        return {}
    return found
