"""DescribeLogDirs (35): the log directory of this broker and the size of each partition.

Behaviour: one directory; per partition its size and its lag behind the known high watermark.
Not done: moving replicas between directories, hence no future replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core.types import TopicPartition
from tidelog.storage.background import Steps
from tidelog.storage.log.file_log import LogDescription
from tidelog.wire.api import Api
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.DESCRIBE_LOG_DIRS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DescribeLogDirsRequest = request.body
    stored = {log.tp: log for log in sorted(node.storage.describe())}
    wanted = set(stored)
    if body.topics is not None:
        wanted.clear()
        for asked in body.topics:
            yield
            for number in asked.partitions:
                tp = TopicPartition(asked.topic, number)
                if tp in stored:
                    wanted.add(tp)
                yield
    topics: dict[str, DescribeLogDirsTopic] = {}
    for tp, log in stored.items():
        if tp in wanted:
            topic = topics.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(_partition(node, log))
            yield
    directory = DescribeLogDirsResult(
        log_dir=str(node.settings.log_dirs.resolve()), topics=list(topics.values())
    )
    request.respond(DescribeLogDirsResponse(results=[directory]))


def _partition(node: Node, log: LogDescription) -> DescribeLogDirsPartition:
    replica = node.core.replicas.get(log.tp)
    lag = max(replica.high_watermark - log.end_offset, 0) if replica is not None else 0
    return DescribeLogDirsPartition(
        partition_index=log.tp.partition, partition_size=log.size_bytes, offset_lag=lag, is_future_key=False
    )
