"""The data folder of a real Apache Kafka, verified by `tidelog dump` as it lies on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.apache_kafka import ApacheKafka
from bench.processes import eventually
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cli.calling import call

pytestmark = [pytest.mark.long, pytest.mark.slow]
EACH = 30
START = EACH + 5
"""Inside the second epoch, and inside a batch of it."""


def write(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 100, "batch.num.messages": 10})
    for n in range(EACH):
        producer.produce("t", b"%d" % n)
    assert producer.flush(60) == 0


def noted_epochs(folder: Path) -> list[str]:
    return (folder / "t-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]


def verified(folder: Path) -> dict[str, Any]:
    """The row of the topic's partition in a folder in which nothing is wrong."""
    answer = call("dump", "--json", folder)
    rows = [json.loads(line) for line in answer.lines]
    assert [row for row in rows if row["kind"] == "finding"] == []
    assert (answer.code, answer.err) == (0, "")
    (row,) = (row for row in rows if row["kind"] == "partition" and row["topic"] == "t")
    return dict(row)


def test_records_that_kafka_was_told_to_delete(tmp_path: Path) -> None:
    """Kafka forgets the epochs below the new start, keeps the batches and writes the new start down later."""
    with ApacheKafka(tmp_path, brokers=1) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
        write(kafka.bootstrap_servers)
        kafka.stop_broker(1)  # its partitions get another epoch with their next leader
        kafka.start_broker(1)
        write(kafka.bootstrap_servers)
        data = kafka.nodes[1].data_dir
        assert verified(data)["start_offset"] == 0
        (deleted,) = admin.delete_records([TopicPartition("t", 0, START)]).values()
        assert deleted.result(60).low_watermark == START
        # Written by a thread of Kafka's, a moment later.
        eventually(lambda: noted_epochs(data)[0].endswith(f" {START}"), "the first epoch is forgotten")
        # So a `kill -9` would leave it now.
        assert verified(data)["epochs"][0] == [0, 0]
    closed = verified(data)
    assert (closed["start_offset"], closed["end_offset"]) == (START, 2 * EACH)
