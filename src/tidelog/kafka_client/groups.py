"""Consumer groups of a cluster, tidelog or Apache Kafka: their coordinator, members and committed offsets.

Every question is asked on a connection of its own, because the coordinator changes in fail-overs. An answer
that says "not now" is None: callers ask again.
"""

from __future__ import annotations

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Address = tuple[str, int]
TIMEOUT_SECONDS = 5.0


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
