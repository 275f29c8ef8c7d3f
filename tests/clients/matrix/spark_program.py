"""Spark's Kafka sink and source, which read a command a line: see `remote`. Run as a program.

Arguments: the connector's jars as a JSON list, and the bootstrap servers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession


def produce(spark: SparkSession, servers: str, topic: str, idempotent: str, *values: str) -> str:
    rows = spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)
    (
        rows.selectExpr("value", "0 AS partition")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.enable.idempotence", idempotent)
        .option("topic", topic)
        .save()
    )
    return "offsets"


def consume(spark: SparkSession, servers: str, topic: str, _count: str) -> str:
    """As a stream: it reads what is there, in batches, and ends."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("assign", json.dumps({topic: [0]}))
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        stream.selectExpr("offset", "CAST(value AS STRING) AS value")
        .writeStream.format("memory")
        .queryName("read")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    rows = spark.sql("SELECT value FROM read ORDER BY offset").collect()
    return " ".join(["values", *(row.value for row in rows)])


def main() -> None:
    jars, servers = json.loads(sys.argv[1]), sys.argv[2]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", False)
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", 1)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    commands: dict[str, Callable[..., str]] = {"produce": produce, "consume": consume}
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            answer = commands[name](spark, servers, *arguments)
        except Exception as error:
            answer = f"error {error}".replace("\n", " ")
        print(answer, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
