"""Spark's own source of Kafka topics, which pyspark does not bring.

Its jars are those that SPARK_KAFKA_JARS names, those in the cache of tidelog, or else what Spark itself
fetches from its package registry.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path


def kafka_source() -> dict[str, str]:
    """Settings of a Spark that can read Kafka topics."""
    if jars := os.environ.get("SPARK_KAFKA_JARS"):
        return {"spark.jars": jars}
    version = metadata.version("pyspark")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    if kept := sorted(Path(base, "tidelog", "jars", f"spark-kafka-{version}").glob("*.jar")):
        return {"spark.jars": ",".join(map(str, kept))}
    return {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"}
