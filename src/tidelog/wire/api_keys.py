"""The APIs of the protocol by Kafka's key and name, and the classes and versions that describe each.

A module of `wire/messages/` describes its API when it is imported; it is imported when its API is first asked
for, so that a process pays only for what it speaks. Which APIs a broker serves is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

NEVER_FLEXIBLE = 1 << 15


class Api(IntEnum):
    """An API key. What is described has a module in `wire/messages/`, of the same name in small letters."""

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
    KRAFT_VOTE = 52  # Kafka's Vote; ours is VOTE
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
    # Ours, spoken between tidelog brokers only.
    VOTE = 1000
    RELIEVE_REPLICA = 1001


# What a client is told. Produce is listed from 0 though only 3 and later are answered: older librdkafka
# compresses nothing unless version 0 is listed (KAFKA-18659). What is spoken between brokers is not listed.
ADVERTISED: Final[Mapping[Api, tuple[int, int]]] = MappingProxyType(
    {
        Api.PRODUCE: (0, 9),
        Api.FETCH: (4, 12),
        Api.LIST_OFFSETS: (1, 7),
        Api.METADATA: (0, 9),
        Api.OFFSET_COMMIT: (2, 8),
        Api.OFFSET_FETCH: (1, 8),
        Api.FIND_COORDINATOR: (0, 4),
        Api.JOIN_GROUP: (0, 7),
        Api.HEARTBEAT: (0, 4),
        Api.LEAVE_GROUP: (0, 4),
        Api.SYNC_GROUP: (0, 5),
        Api.DESCRIBE_GROUPS: (0, 5),
        Api.LIST_GROUPS: (0, 4),
        Api.SASL_HANDSHAKE: (0, 1),
        Api.API_VERSIONS: (0, 3),
        Api.CREATE_TOPICS: (0, 7),
        Api.DELETE_TOPICS: (0, 6),
        Api.DELETE_RECORDS: (0, 2),
        Api.INIT_PRODUCER_ID: (0, 4),
        Api.OFFSET_FOR_LEADER_EPOCH: (0, 4),
        Api.ADD_PARTITIONS_TO_TXN: (0, 2),
        Api.ADD_OFFSETS_TO_TXN: (0, 2),
        Api.END_TXN: (0, 2),
        Api.TXN_OFFSET_COMMIT: (0, 3),
        Api.DESCRIBE_ACLS: (0, 2),
        Api.CREATE_ACLS: (0, 2),
        Api.DELETE_ACLS: (0, 2),
        Api.DESCRIBE_CONFIGS: (0, 3),
        Api.ALTER_CONFIGS: (0, 2),
        Api.DESCRIBE_LOG_DIRS: (0, 2),
        Api.SASL_AUTHENTICATE: (0, 2),
        Api.CREATE_PARTITIONS: (0, 3),
        Api.DELETE_GROUPS: (0, 2),
        Api.ELECT_LEADERS: (0, 2),
        Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        Api.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
        Api.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        Api.OFFSET_DELETE: (0, 0),
    }
)


class ApiSchema(NamedTuple):
    """What can be encoded and decoded here. `flexible_since` is the first version with compact lengths and
    tagged fields (KIP-482)."""

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
    """These classes can spell the API in these versions (Kafka's `validVersions`)."""
    _schemas[api] = ApiSchema(api, request, response, range(versions[0], versions[1] + 1), flexible_since)


def find_schema(key: int) -> ApiSchema | None:
    """None if the key is unknown, or its API is not described here."""
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
    """The same for an API that must be described."""
    schema = find_schema(key)
    if schema is None:
        raise ValueError(f"API {key} is not described in wire/messages")
    return schema
