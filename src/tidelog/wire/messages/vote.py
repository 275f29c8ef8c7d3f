"""Vote (1000), tidelog's own: under majority rules the controller asks replicas how long their logs are.

The replica with the longest log of a majority becomes leader. With its answer a replica promises to ignore
leaders of earlier epochs. Kafka's own Vote (52) serves KRaft, where the replicas elect their leader
themselves.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, struct


@struct
class VoteRequest:
    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    topic_name: String
    partition_index: Int32
    leader_epoch: Int32


@struct
class VoteResponse:
    error_code: Int16 = 0
    topic_name: String
    partition_index: Int32
    leader_epoch: Int32
    last_epoch: Int32 = -1
    end_offset: Int64 = -1


describes(Api.VOTE, VoteRequest, VoteResponse, versions=(0, 0), flexible_since=0)
