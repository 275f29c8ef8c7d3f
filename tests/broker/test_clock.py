"""A broker whose clock is wrong: what it stamps is wrong by as much, and it works all the same."""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.broker.running import QUIET

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.admin import Admin

HOUR_MS = 3_600_000


def test_a_clock_can_be_set_ahead(tmp_path: Path):
    """By a setting; records that the broker stamps come from the future."""
    with Cluster(
        ClusterSpec(brokers=1, settings={"tidelog.clock.offset.ms": str(HOUR_MS)}), tmp_path
    ) as cluster:
        common = {"bootstrap.servers": cluster.bootstrap_servers, **QUIET}
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create("t", partitions=1, settings={"message.timestamp.type": "LogAppendTime"})
        before = int(time.time() * 1000)
        producer = Producer(common)
        producer.produce("t", "a", partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer({**common, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        (record,) = consumer.consume(1, 60)
        consumer.close()
    _, stamped = record.timestamp()
    assert before + HOUR_MS <= stamped <= int(time.time() * 1000) + HOUR_MS
