"""The requests of the protocol, by Kafka's number and name, and the versions a broker offers of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class Api(IntEnum):
    """An API key. `wire/messages/` holds one module per member, of the same name in small letters."""

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
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    ALTER_ISR = 56
    # Ours, spoken between tidelog brokers only. Kafka's own Vote (52) belongs to KRaft and differs.
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

# The newest version that can be encoded and decoded here: what brokers use among themselves.
LATEST: Final[Mapping[Api, int]] = MappingProxyType(
    {
        **{api: newest for api, (_, newest) in ADVERTISED.items()},
        Api.LEADER_AND_ISR: 4,
        Api.STOP_REPLICA: 3,
        Api.UPDATE_METADATA: 6,
        Api.CONTROLLED_SHUTDOWN: 3,
        Api.ALTER_ISR: 0,
        Api.VOTE: 0,
        Api.RELIEVE_REPLICA: 0,
    }
)
