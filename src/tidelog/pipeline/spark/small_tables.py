"""A few rows as a table that is part of the plan itself: no job makes it, and Spark sees how small it is.

`SparkSession.createDataFrame` makes rows an RDD, of which the planner knows nothing; Arrow's it takes as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def literal(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
    """`schema` in Spark's words: "topic string, partition int"."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    columns = StructType.fromDDL(schema)
    assert isinstance(columns, StructType)
    listed = [[row[index] for row in rows] for index in range(len(columns))]
    found: DataFrame = spark.createDataFrame(pa.table(listed, schema=to_arrow_schema(columns)), columns)
    return found


def brought_home(found: DataFrame) -> DataFrame:
    """The rows of a small table, computed now."""
    home: DataFrame = found.sparkSession.createDataFrame(found.toArrow(), found.schema)
    return home
