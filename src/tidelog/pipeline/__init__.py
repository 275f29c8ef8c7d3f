"""The audit on Spark: what producers were promised × what every replica holds × what consumers read.

``session.py`` opens Spark, ``java.py`` finds something to run it on, ``errors.py`` is how the pipeline says
no. ``segments/`` turns segment files into Arrow without knowing Spark; ``sources/`` are the Spark data
sources over it and over live topics. ``reconcile/`` holds a topic against a table, and `continuity` is its
entry for notebooks.

Only this package imports pyspark, and only inside it: `import tidelog.pipeline` alone starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tidelog.pipeline.reconcile.result import Continuity


def continuity(
    spark: SparkSession,
    *,
    topic: str,
    table: DataFrame | str,
    bootstrap_servers: str | None = None,
    logs: Sequence[str] = (),
    format: str = "parquet",  # as Spark calls it
    topic_column: str | None = "topic",
    partition_column: str = "partition",
    offset_column: str = "offset",
    value_column: str | None = None,
    key_column: str | None = None,
    checkpoint: str | None = None,
    connect_offsets: str | None = None,
    history: Sequence[DataFrame] = (),
    state: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Continuity:
    """Compare every offset of a topic with the rows of a table, on the session that is given.

    The topic is read from brokers (`bootstrap_servers`) or from log folders (`logs`); the table is a
    DataFrame, or the path of a table in `format`. `topic_column` None: all rows are of this topic.
    `key_column`: match rows by the record's key instead of by partition and offset. `history`: earlier
    versions of the table. Nothing of the session is changed. Raises `PipelineError`.
    """
    from tidelog.pipeline.reconcile.run import Request, open_table, prove
    from tidelog.pipeline.reconcile.table_side import Columns

    request = Request(
        topic,
        bootstrap_servers,
        list(logs),
        Columns(topic_column, partition_column, offset_column, value_column, key_column),
        checkpoint,
        connect_offsets,
        state,
        None if since is None else int(since.timestamp() * 1000),
        None if until is None else int(until.timestamp() * 1000),
    )
    request.check()
    frame = open_table(spark, table, format) if isinstance(table, str) else table
    return prove(spark, frame, request, history)
