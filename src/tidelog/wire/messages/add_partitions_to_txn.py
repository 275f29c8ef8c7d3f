"""AddPartitionsToTxn (24): partitions that a transaction is about to write to (KIP-98).

The fields have the names that Kafka gave them in version 4. Version 4 itself is not described here.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, struct


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: String
    v3_and_below_producer_id: Int64
    v3_and_below_producer_epoch: Int16
    v3_and_below_topics: list[AddPartitionsToTxnTopic]


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult]


describes(Api.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, versions=(0, 2))
