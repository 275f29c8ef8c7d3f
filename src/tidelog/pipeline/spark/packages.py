"""Packages of Spark that pyspark does not bring: the source of Kafka topics, and Delta tables.

Their jars are those that an environment variable names, those in the cache of tidelog, or else what Spark
itself fetches from its package registry.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final


@dataclass(slots=True, frozen=True)
class Package:
    variable: str
    """Of the environment: paths of jars, separated by commas."""
    cached: str
    """The folder in the cache, by the version of Spark."""
    coordinates: str
    """The same, of the registry."""
    settings: tuple[tuple[str, str], ...] = ()

    def jars(self) -> str | None:
        if named := os.environ.get(self.variable):
            return named
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        kept = Path(base, "tidelog", "jars", self.cached.format(_spark())).glob("*.jar")
        return ",".join(map(str, sorted(kept))) or None


KAFKA: Final = Package("SPARK_KAFKA_JARS", "spark-kafka-{}", "org.apache.spark:spark-sql-kafka-0-10_2.13:{}")
DELTA: Final = Package(
    "SPARK_DELTA_JARS",
    "spark-delta-{}",
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    (
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    ),
)


def with_packages(*packages: Package) -> dict[str, str]:
    """Settings of a Spark that has them."""
    found: dict[str, str] = {}
    for each in packages:
        jars = each.jars()
        name = "spark.jars.packages" if jars is None else "spark.jars"
        value = each.coordinates.format(_spark()) if jars is None else jars
        found[name] = f"{found[name]},{value}" if name in found else value
        found |= dict(each.settings)
    return found


def _spark() -> str:
    return metadata.version("pyspark")
