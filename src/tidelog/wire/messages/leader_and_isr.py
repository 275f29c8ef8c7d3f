"""LeaderAndIsr (4), from the controller: the leader and the ISR of partitions that this broker has replicas
of.

Versions as in Kafka 2.7: 1 says whether the partition is new, 2 groups by topic and adds the broker epoch
(KIP-380), 3 reassignments. Version 5, with topic
ids, is not there.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import NO_UUID, Bool, Int16, Int32, Int64, String, Uuid, field, struct


@struct
class LeaderAndIsrPartitionState:
    """`zk_version` is the version of the state in the keeper."""

    topic_name: String = field("", until=1)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32] = field([], since=3)
    removing_replicas: list[Int32] = field([], since=3)
    is_new: Bool = field(False, since=1)


@struct
class LeaderAndIsrTopicState:
    """`topic_id` is tidelog's own field here; Kafka has it since version 5, with another layout of the
    answer. Brokers that do not know a tagged field skip it."""

    topic_name: String
    partition_states: list[LeaderAndIsrPartitionState]
    topic_id: Uuid = field(NO_UUID, since=4, tag=1000)


@struct
class LeaderAndIsrLiveLeader:
    broker_id: Int32
    host_name: String
    port: Int32


@struct
class LeaderAndIsrRequest:
    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64 = field(-1, since=2)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field([], until=1)
    topic_states: list[LeaderAndIsrTopicState] = field([], since=2)
    live_leaders: list[LeaderAndIsrLiveLeader]


@struct
class LeaderAndIsrPartitionError:
    topic_name: String
    partition_index: Int32
    error_code: Int16 = 0


@struct
class LeaderAndIsrResponse:
    error_code: Int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError]


describes(Api.LEADER_AND_ISR, LeaderAndIsrRequest, LeaderAndIsrResponse, versions=(0, 4), flexible_since=4)
