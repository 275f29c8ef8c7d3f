"""The data sources that Spark learns from tidelog.

`tidelog_log` reads the segment files of every replica, tidelog's or Apache Kafka's, in parallel;
`tidelog_topic` reads live topics of any Kafka-compatible cluster, as a batch or as a stream;
`tidelog_evidence` streams what the clients of a trial see, while it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the sources known to a session, under their names."""
    from tidelog.pipeline.sources.evidence_source import EvidenceSource
    from tidelog.pipeline.sources.log_source import LogSource

    spark.dataSource.register(LogSource)
    spark.dataSource.register(EvidenceSource)
    try:
        from tidelog.pipeline.sources.topic_source import TopicSource
    except ImportError:  # confluent-kafka is needed for live topics only
        return
    spark.dataSource.register(TopicSource)
