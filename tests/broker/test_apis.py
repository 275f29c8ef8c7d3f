"""The table of APIs: what clients are offered, what stays between brokers, and where each is found."""

from __future__ import annotations

import pytest

from tidelog.broker.apis import SERVED, Listener, offered, serves
from tidelog.broker.connection import Request
from tidelog.wire.api import Api
from tidelog.wire.api_keys import schema_of

OFFERED = [
    (Api.PRODUCE, 0, 9),
    (Api.FETCH, 4, 18),
    (Api.LIST_OFFSETS, 1, 7),
    (Api.METADATA, 0, 13),
    (Api.OFFSET_COMMIT, 2, 8),
    (Api.OFFSET_FETCH, 1, 8),
    (Api.FIND_COORDINATOR, 0, 4),
    (Api.JOIN_GROUP, 0, 7),
    (Api.HEARTBEAT, 0, 4),
    (Api.LEAVE_GROUP, 0, 4),
    (Api.SYNC_GROUP, 0, 5),
    (Api.DESCRIBE_GROUPS, 0, 5),
    (Api.LIST_GROUPS, 0, 4),
    (Api.API_VERSIONS, 0, 3),
    (Api.CREATE_TOPICS, 0, 7),
    (Api.DELETE_TOPICS, 0, 6),
    (Api.DELETE_RECORDS, 0, 2),
    (Api.INIT_PRODUCER_ID, 0, 4),
    (Api.OFFSET_FOR_LEADER_EPOCH, 0, 4),
    (Api.DESCRIBE_ACLS, 0, 2),
    (Api.CREATE_ACLS, 0, 2),
    (Api.DELETE_ACLS, 0, 2),
    (Api.DESCRIBE_CONFIGS, 0, 3),
    (Api.ALTER_CONFIGS, 0, 2),
    (Api.DESCRIBE_LOG_DIRS, 0, 2),
    (Api.CREATE_PARTITIONS, 0, 3),
    (Api.DELETE_GROUPS, 0, 2),
    (Api.ELECT_LEADERS, 0, 2),
    (Api.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    (Api.ALTER_PARTITION_REASSIGNMENTS, 0, 0),
    (Api.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    (Api.OFFSET_DELETE, 0, 0),
    (Api.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
]


def test_clients_are_offered_these_versions_in_this_order() -> None:
    """Written out, so that a change of a schema or a handler does not change it unseen."""
    assert [(each.api_key, each.min_version, each.max_version) for each in offered()] == OFFERED


def test_what_is_offered_is_served_but_for_the_oldest_of_produce() -> None:
    unserved = [
        (each.api_key, version)
        for each in offered()
        for version in range(each.min_version, each.max_version + 1)
        if version not in schema_of(each.api_key).versions
    ]
    assert unserved == [(Api.PRODUCE, 0), (Api.PRODUCE, 1), (Api.PRODUCE, 2)]


def test_what_brokers_say_among_themselves_is_not_offered() -> None:
    """A client that tried would only do harm."""
    between = {key for key, served in SERVED.items() if served.listener is Listener.BETWEEN_BROKERS}
    assert between == {
        Api.LEADER_AND_ISR,
        Api.STOP_REPLICA,
        Api.UPDATE_METADATA,
        Api.CONTROLLED_SHUTDOWN,
        Api.ALTER_ISR,
        Api.VOTE,
        Api.RELIEVE_REPLICA,
    }


def test_an_api_is_found_by_its_name() -> None:
    """Its handler is in the module of its name; the two that alter settings share one."""
    for served in SERVED.values():
        name = "ALTER_CONFIGS" if served.api is Api.INCREMENTAL_ALTER_CONFIGS else served.api.name
        assert served.handle.__module__ == f"tidelog.broker.apis.{name.lower()}"


def test_an_api_has_one_handler() -> None:
    """The second, perhaps a copy whose API was not changed, would replace the first."""
    with pytest.raises(ValueError, match="FETCH has two handlers"):

        @serves(Api.FETCH)
        def handle(_node: object, _request: Request) -> None: ...
