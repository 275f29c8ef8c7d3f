"""The APIs of the protocol by Kafka's key and name, and the classes and versions that describe each.

A module of `wire/messages/` describes its API when it is imported; it is imported on first use, so that a
process loads only the APIs that it uses. Which APIs a broker serves is decided in `broker/apis`.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Any, NamedTuple

NEVER_FLEXIBLE = 1 << 15


class Api(IntEnum):
    """An API key. If this package describes the API, `wire/messages/` has a module of the same name in lower
    case."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    KRAFT_VOTE = 52  # Kafka's Vote; tidelog's own is VOTE
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_ISR = 56  # since Kafka 3.2 AlterPartition
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    # Not of Kafka: between tidelog brokers only.
    VOTE = 1000
    RELIEVE_REPLICA = 1001


class ApiSchema(NamedTuple):
    """The message classes of one API and the versions that they describe. `flexible_since` is the first
    version with compact lengths and tagged fields (KIP-482)."""

    api: Api
    request: type[Any]
    response: type[Any]
    versions: range
    flexible_since: int

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_since


_schemas: dict[int, ApiSchema | None] = {}


def describes(
    api: Api,
    request: type[Any],
    response: type[Any],
    *,
    versions: tuple[int, int],
    flexible_since: int = NEVER_FLEXIBLE,
) -> None:
    """Register the classes of an API and their versions (Kafka's `validVersions`)."""
    _schemas[api] = ApiSchema(api, request, response, range(versions[0], versions[1] + 1), flexible_since)


def find_schema(key: int) -> ApiSchema | None:
    """None if the key is unknown, or this package does not describe the API."""
    if key not in _schemas and key in Api.__members__.values():
        module = f"tidelog.wire.messages.{Api(key).name.lower()}"
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            _schemas[key] = None
    return _schemas.get(key)


def schema_of(key: int) -> ApiSchema:
    """`find_schema` for an API that must have a description."""
    schema = find_schema(key)
    if schema is None:
        raise ValueError(f"API {key} is not described in wire/messages")
    return schema
