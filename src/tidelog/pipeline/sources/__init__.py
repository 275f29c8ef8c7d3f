"""The data sources that Spark learns from tidelog.

`tidelog_log` reads the segment files of every replica, tidelog's or Apache Kafka's, in parallel;
`tidelog_topic` reads live topics of any Kafka-compatible cluster, as a batch or as a stream;
`tidelog_evidence` streams what the clients of a trial see, while it goes on.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidelog.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the sources known to a session, under their names: those that can be had."""
    from tidelog.pipeline.sources.log_source import LogSource

    spark.dataSource.register(LogSource)
    with suppress(ModuleNotFoundError):  # streams with a limit came with Spark 4.2
        from tidelog.pipeline.sources.evidence_source import EvidenceSource

        spark.dataSource.register(EvidenceSource)
    with suppress(ModuleNotFoundError):  # confluent-kafka may be missing as well
        from tidelog.pipeline.sources.topic_source import TopicSource

        spark.dataSource.register(TopicSource)


def require_streams() -> None:
    """Raises `PipelineError` where Spark cannot stream from these sources."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise PipelineError(
            f"following needs Spark 4.2, this is {version('pyspark')}: pip install 'pyspark>=4.2'"
        )
