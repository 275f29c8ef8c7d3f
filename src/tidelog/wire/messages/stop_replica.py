"""StopReplica (5), from the controller: stop following or leading partitions, and perhaps delete them.

Version 1 groups by topic and adds the broker epoch (KIP-380), 3 adds the leader epoch of each partition.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, field, struct


@struct
class StopReplicaPartitionV0:
    topic_name: String
    partition_index: Int32


@struct
class StopReplicaTopicV1:
    name: String
    partition_indexes: list[Int32]


@struct
class StopReplicaPartitionState:
    partition_index: Int32
    leader_epoch: Int32 = -1
    delete_partition: Bool


@struct
class StopReplicaTopicState:
    topic_name: String
    partition_states: list[StopReplicaPartitionState]


@struct
class StopReplicaRequest:
    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64 = field(-1, since=1)
    delete_partitions: Bool = field(False, until=2)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field([], until=0)
    topics: list[StopReplicaTopicV1] = field([], since=1, until=2)
    topic_states: list[StopReplicaTopicState] = field([], since=3)


@struct
class StopReplicaPartitionError:
    topic_name: String
    partition_index: Int32
    error_code: Int16 = 0


@struct
class StopReplicaResponse:
    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError]


describes(Api.STOP_REPLICA, StopReplicaRequest, StopReplicaResponse, versions=(0, 3), flexible_since=2)
