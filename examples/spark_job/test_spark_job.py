"""The job never leaves a gap without saying so. Needs Spark's Kafka source: the setting
`spark.jars.packages` of `spark` gets it, or SPARK_KAFKA_JARS names jars that are here already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from app import copy_new_records
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

ClientConfig = Callable[[str], dict[str, Any]]
RECORDS = 20


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if jars := os.environ.get("SPARK_KAFKA_JARS"):
        builder = builder.config("spark.jars", jars)
    else:
        builder = builder.config(
            "spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        )
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def send(kafka_client_config: ClientConfig, kafka_topic: str) -> Callable[[str], None]:
    producer = Producer({**kafka_client_config("confluent-kafka"), "acks": "all"})

    def some(name: str) -> None:
        for number in range(RECORDS):
            producer.produce(kafka_topic, f"{name}-{number}")
        assert producer.flush(120) == 0

    return some


def copied(spark: SparkSession, folder: Path) -> int:
    return spark.read.parquet(f"{folder}/table").count()


def test_it_goes_on_where_it_was_although_the_leader_dies(
    spark: SparkSession,
    kafka_faults: Any,
    kafka_topic: str,
    send: Callable[[str], None],
    tmp_path: Path,
) -> None:
    servers = kafka_faults.cluster.bootstrap_servers
    send("first")
    copy_new_records(spark, servers, kafka_topic, str(tmp_path))
    assert copied(spark, tmp_path) == RECORDS
    with kafka_faults.kill(kafka_faults.leader_of(kafka_topic)):
        send("second")
        copy_new_records(spark, servers, kafka_topic, str(tmp_path))
    assert copied(spark, tmp_path) == 2 * RECORDS


def test_records_that_expire_before_they_are_copied_stop_it(
    spark: SparkSession,
    kafka_faults: Any,
    kafka_topic: str,
    send: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """Retention deletes what the job has not seen: it must fail, not skip."""
    servers = kafka_faults.cluster.bootstrap_servers
    send("first")
    copy_new_records(spark, servers, kafka_topic, str(tmp_path))
    send("never seen")
    with kafka_faults.expire_retention(kafka_topic):
        pass
    send("third")
    with pytest.raises(StreamingQueryException, match=r"(?i)data.?loss|offsets? out of range|lost"):
        copy_new_records(spark, servers, kafka_topic, str(tmp_path))
