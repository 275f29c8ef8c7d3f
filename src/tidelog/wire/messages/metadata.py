"""Metadata (3): the live brokers, and the leader of each partition.

Versions: 0 asks for all topics with an empty list, later ones with null; 4 may create topics; 7 adds leader
epochs, which clients trust from 9 on; 8 adds the operations that a client may perform (KIP-430), until 10
also those on the cluster; 10 adds topic ids to the answer, 12 lets a client ask by id (KIP-516), 13 has an
error of the whole answer (KIP-1102).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.operations import NOT_ASKED
from tidelog.wire.schema import NO_UUID, Bool, Int16, Int32, String, Uuid, field, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = field(NO_UUID, since=10)
    name: String | None = field(nullable_since=10)


@struct
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Bool = field(True, since=4)
    include_cluster_authorized_operations: Bool = field(False, since=8, until=10)
    include_topic_authorized_operations: Bool = field(False, since=8)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(None, since=1)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(-1, since=7)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field([], since=5)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: String | None = field(nullable_since=12)
    topic_id: Uuid = field(NO_UUID, since=10)
    is_internal: Bool = field(False, since=1)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field(NOT_ASKED, since=8)


@struct
class MetadataResponse:
    throttle_time_ms: Int32 = field(0, since=3)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field(None, since=2)
    controller_id: Int32 = field(-1, since=1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(NOT_ASKED, since=8, until=10)
    error_code: Int16 = field(0, since=13)


describes(Api.METADATA, MetadataRequest, MetadataResponse, versions=(0, 13), flexible_since=9)
