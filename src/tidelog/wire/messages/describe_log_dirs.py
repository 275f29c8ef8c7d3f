"""DescribeLogDirs (35): the log directories of a broker and the size of each partition in them."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, struct


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: list[Int32]


@struct
class DescribeLogDirsRequest:
    """`topics` is None to ask for all."""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]


@struct
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeLogDirsResult]


describes(
    Api.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse, versions=(0, 2), flexible_since=2
)
