"""Copies a topic into a table: Spark Structured Streaming to Parquet, as often as it is started."""

from __future__ import annotations

from pyspark.sql import SparkSession


def copy_new_records(spark: SparkSession, servers: str, topic: str, folder: str) -> None:
    """Append what has come since the last time to `folder/table`. Raises StreamingQueryException if Kafka has
    deleted records that were not copied."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .load()
    )
    query = (
        records.selectExpr("partition", "offset", "cast(value as string) as value")
        .writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
