"""Runs one of the streaming jobs until it is killed: ``python -m tidelog.pipeline.jobs NAME``.

What a script of a user gets, a job gets, by its environment: TIDELOG_SERVERS, TIDELOG_TOPIC, TIDELOG_TABLE,
TIDELOG_CHECKPOINT.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from tidelog.errors import Refusal, unknown
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.jobs import JOBS
from tidelog.pipeline.spark.packages import DELTA, KAFKA, with_packages
from tidelog.pipeline.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MEMORY_MB = 1024
_COLUMNS = ("topic", "partition", "offset", "timestamp", "value")
_BATCH_OFFSETS_MAX = 2_000
"""Several batches even of a short load, so that there is one to be killed in."""


def main(arguments: list[str]) -> int:
    try:
        if len(arguments) != 1 or arguments[0] not in JOBS:
            raise unknown("job", " ".join(arguments), tuple(JOBS))
        _run(arguments[0])
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except Exception as error:  # Spark's errors share no class: Java's, py4j's and its own
        print(f"the query failed: {first_line(error)}", file=sys.stderr)
        return 1
    return 0


def _run(name: str) -> None:
    settings = with_packages(KAFKA, DELTA) if name == "delta" else with_packages(KAFKA)
    spark = open_session(app=f"tidelog job {name}", quick=True, memory_mb=_MEMORY_MB, settings=settings)
    records = _records(spark, skips=name == "skipping")
    table, place = os.environ["TIDELOG_TABLE"], os.environ["TIDELOG_CHECKPOINT"]
    writer: Any = records.writeStream.option("checkpointLocation", place)
    if name == "foreachbatch":
        query = writer.foreachBatch(lambda batch, number: _append(batch, table)).start()
    else:
        query = writer.format("delta" if name == "delta" else "parquet").option("path", table).start()
    query.awaitTermination()


def _records(spark: SparkSession, *, skips: bool) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TIDELOG_SERVERS"])
        .option("subscribe", os.environ["TIDELOG_TOPIC"])
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not skips).lower())
        .option("maxOffsetsPerTrigger", _BATCH_OFFSETS_MAX)
    )
    try:
        return source.load().select(*_COLUMNS)
    except Exception as error:
        if "Failed to find data source: kafka" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
            raise PipelineError(
                "this Spark cannot read Kafka: set SPARK_KAFKA_JARS to the jars of spark-sql-kafka-0-10"
            ) from None
        raise


def _append(batch: DataFrame, table: str) -> None:
    """Append a batch, and then count the table as a check: when the job dies in between, Spark repeats the
    batch, and this appends it again."""
    batch.write.mode("append").parquet(table)
    batch.sparkSession.read.parquet(table).count()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
