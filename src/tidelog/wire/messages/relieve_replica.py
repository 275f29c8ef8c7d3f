"""RelieveReplica (1001), tidelog's own, to the controller: a broker cannot write to its log of a partition.

Kafka's brokers report a failed log directory, with all its partitions, through ZooKeeper (KIP-112).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, struct


@struct
class RelieveReplicaRequest:
    broker_id: Int32
    broker_epoch: Int64
    topic_name: String
    partition_index: Int32
    leader_epoch: Int32


@struct
class RelieveReplicaResponse:
    error_code: Int16 = 0


describes(
    Api.RELIEVE_REPLICA, RelieveReplicaRequest, RelieveReplicaResponse, versions=(0, 0), flexible_since=0
)
