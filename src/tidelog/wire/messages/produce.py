"""Produce (0): append record batches to partitions.

A request with acks=0 gets no response. Version 3 is the first whose batches have magic 2.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, Records, String, field, struct


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None = None


@struct
class TopicProduceData:
    name: String
    partition_data: list[PartitionProduceData]


@struct
class ProduceRequest:
    transactional_id: String | None = field(None, since=3)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """Why one record of a batch was refused."""

    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class PartitionProduceResponse:
    """`log_append_time_ms` is -1 unless the topic uses LogAppendTime."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = field(-1, since=2)
    log_start_offset: Int64 = field(-1, since=5)
    record_errors: list[BatchIndexAndErrorMessage] = field([], since=8)
    error_message: String | None = field(None, since=8)


@struct
class TopicProduceResponse:
    name: String
    partition_responses: list[PartitionProduceResponse]


@struct
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field(0, since=1)


describes(Api.PRODUCE, ProduceRequest, ProduceResponse, versions=(3, 9), flexible_since=9)
