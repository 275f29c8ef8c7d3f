"""Transactions that depend on each other in a circle: found on Spark, however many there are.

A transaction comes before another if it wrote right before it into a partition (ww), or if the other read
what it wrote (wr). Who is on a circle came before himself.

Rules of the file:

* Only transactions that committed: acknowledged, or in doubt and one of their values was seen somewhere.
* Nothing is collected. Transactions stand on a line by the time when their outcome was known; edges against
  that order cover every cycle (`cycles.merged`). Only what lies in one island is looked at together.
* Reads alone are looked at by themselves. Who reads only what is committed never reads against that order, so
  there is hardly anything to look at, and broken promises are found however many transactions interleave.
* An island that is too large for one worker is not judged, and named.
* Where the ledger holds no transactions, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.findings import together
from tidelog.pipeline.audit.inputs import ABSENT, FINAL_LOG, READ, REPLICA_LOGS, Inputs
from tidelog.pipeline.audit.tables.cycles import READS, WRITES, Edge, knots, merged
from tidelog.pipeline.audit.tables.fates import VALUE, few, of_kind, standing, tally
from tidelog.pipeline.audit.tables.final_log import committed_values
from tidelog.pipeline.audit.tables.stretches import PLACE
from tidelog.pipeline.audit.tables.sums import placed_sends
from tidelog.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EDGES_MAX: Final = 2_000_000
"""Of one island: about a GB of a worker's memory."""
_EDGES_AT_ONCE: Final = 200_000
_NAMED_MAX: Final = 200
_HOME_MAX: Final = 1_000_000
_BACKWARD: Final = "source_us >= target_us"
_BUCKET_US: Final = 10_000
_BUCKETS_MAX: Final = 100_000
"""Islands are looked up by short pieces of time; the longer they are in all, the longer the pieces."""
_SHOWN_MAX: Final = 8

_KNOTS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("members", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("time_us", pa.int64()),
        ("until_us", pa.int64()),
        ("detail", pa.string()),
    ]
)
_KNOTS_DDL: Final = (
    "kind string, members bigint, topic string, partition int, offset bigint, time_us bigint, "
    "until_us bigint, detail string"
)


# ---------------------------------------------------------------- what became of them


def settle(inputs: Inputs) -> None:
    """A transaction in doubt committed if one of its values was seen: all its sends count as acknowledged."""
    from pyspark.sql import functions as f

    doubtful = inputs.ledger.where("transaction is not null and outcome = 'unknown' and value is not null")
    seen = []
    if READ in inputs.facts:
        seen.append(inputs.reads.where("value is not null").select(*VALUE))
    if REPLICA_LOGS in inputs.facts:
        seen.append(committed_values(inputs).select(*VALUE))
    if not seen:
        return
    values = seen[0] if len(seen) == 1 else seen[0].unionByName(seen[1])
    committed = inputs.once(
        "committed in doubt",
        lambda: (
            doubtful.select(*VALUE, "transaction")
            .join(values, VALUE, "left_semi")
            .select("transaction")
            .distinct()
        ),
    )
    some = [row["transaction"] for row in committed.limit(_NAMED_MAX + 1).collect()]
    if not some:
        return
    columns = inputs.ledger.columns
    if len(some) <= _NAMED_MAX:  # every plan that follows has this in it, so it should be small
        ledger = inputs.ledger.withColumn("seen", f.col("transaction").isin(some))
    else:
        seen_ones = few(committed.withColumn("seen", f.lit(True)), committed.count())
        ledger = inputs.ledger.join(seen_ones, "transaction", "left")
    inputs.ledger = ledger.withColumn(
        "outcome", f.expr("if(seen and outcome = 'unknown', 'ok', outcome)")
    ).select(*columns)


# ---------------------------------------------------------------- who came before whom


def _writes(inputs: Inputs) -> DataFrame:
    """The sends of committed transactions, with `at_us`, when the last of their transaction was settled, and
    `stands`."""
    return inputs.once("writes of transactions", lambda: _make_writes(inputs))


def _make_writes(inputs: Inputs) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    sends = placed_sends(inputs).where("transaction is not null and outcome = 'ok'")
    if tally(inputs)["repeated"]:
        sends = sends.join(of_kind(inputs, "repeated").select(*VALUE), VALUE, "left_anti")
    return (
        standing(inputs, sends)
        .withColumn("settled", f.expr("coalesce(settled_us, sent_us)"))
        .withColumn("at_us", f.max("settled").over(Window.partitionBy("transaction")))
        .select(*VALUE, "transaction", "at_us", "stands")
    )


def _edges(inputs: Inputs) -> DataFrame:
    """kind, topic, partition; source, source_us, source_offset; target, target_us, target_offset."""
    return inputs.once("edges of transactions", lambda: _make_edges(inputs))


def _make_edges(inputs: Inputs) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = f.lag(f.struct("transaction", "at_us", "stands")).over(
        Window.partitionBy(*PLACE).orderBy("stands")
    )
    written = (
        _writes(inputs)
        .where("stands is not null")
        .withColumn("before", before)
        .where("before.transaction != transaction")
        .selectExpr(
            f"'{WRITES}' as kind",
            *PLACE,
            "before.transaction as source",
            "before.at_us as source_us",
            "before.stands as source_offset",
            "transaction as target",
            "at_us as target_us",
            "stands as target_offset",
        )
    )
    if READ not in inputs.facts:
        return written
    when = _writes(inputs).select("transaction", "at_us").distinct()
    readers = (
        inputs.reads.where("transaction is not null and value is not null")
        .select(*VALUE, "offset", "transaction")
        .join(when, "transaction")
        .withColumnsRenamed({"transaction": "target", "at_us": "target_us"})
    )
    read = (
        readers.join(_writes(inputs), VALUE)
        .where("transaction != target")
        .selectExpr(
            f"'{READS}' as kind",
            *PLACE,
            "transaction as source",
            "at_us as source_us",
            "offset as source_offset",
            "target",
            "target_us",
            "offset as target_offset",
        )
    )
    return written.unionByName(read)


# ---------------------------------------------------------------- in circles


def circles(inputs: Inputs) -> DataFrame | None:
    """kind, members (how many), topic, partition, offset, time_us, until_us, detail: one row for each knot of
    transactions. None: there is none."""
    if not inputs.transactional:
        return None
    if FINAL_LOG not in inputs.facts:
        raise PipelineError(ABSENT[FINAL_LOG])
    _name_the_unplaced(inputs)
    backward = inputs.counted(
        "backward",
        lambda: (
            _edges(inputs)
            .where(_BACKWARD)
            .selectExpr("count(*) as all", f"count_if(kind = '{READS}') as reads")
        ),
    )
    return together(
        inputs.once("circles of reads", lambda: _circles(inputs, reads_alone=True))
        if backward["reads"]
        else None,
        inputs.once("circles", lambda: _circles(inputs, reads_alone=False)) if backward["all"] else None,
    )


def _name_the_unplaced(inputs: Inputs) -> None:
    counted = inputs.counted(
        "unplaced writes", lambda: _writes(inputs).selectExpr("count_if(stands is null) as n")
    )
    if counted["n"]:
        inputs.lacks(
            f"the order of {counted['n']:,} sends in transactions", "it is not known where they stand"
        )


def _circles(inputs: Inputs, *, reads_alone: bool) -> DataFrame:
    """Those of reads alone, or all the others."""
    from pyspark.sql import functions as f

    edges = _edges(inputs)
    edges = edges.where(f"kind = '{READS}'") if reads_alone else edges
    islands = _islands(inputs, edges)
    covered = islands.selectExpr("coalesce(sum(high - low), 0) as us").first()
    bucket_us = max(_BUCKET_US, (covered["us"] if covered else 0) // _BUCKETS_MAX)
    islands = islands.selectExpr(
        "*", f"explode(sequence(low div {bucket_us}, high div {bucket_us})) as bucket"
    )
    # Of each pair one edge of a kind is enough to know that it is there.
    inside = inputs.once(
        f"edges in islands, {reads_alone}",
        lambda: (
            edges.withColumn("bucket", f.expr(f"source_us div {bucket_us}"))
            .join(f.broadcast(islands), "bucket")
            .where("source_us between low and high and target_us between low and high")
            .groupBy("low", "kind", "source", "target")
            .agg(
                f.min(f.struct(*PLACE, "source_offset", "target_offset", "source_us", "target_us")).alias(
                    "first"
                )
            )
            .select("low", "kind", "source", "target", "first.*")
        ),
    )
    sizes = inside.groupBy("low").count()
    row = sizes.selectExpr(
        "coalesce(sum(count), 0) as edges",
        f"count_if(count > {EDGES_MAX}) as islands",
        f"coalesce(sum(if(count > {EDGES_MAX}, count, 0)), 0) as too_many",
    ).first()
    if row is not None and row["islands"]:
        inputs.lacks(
            "cycles of reads" if reads_alone else "cycles that need the order of writes",
            f"{row['too_many']:,} dependencies of transactions lie in {row['islands']:,} stretches of time "
            f"without a pause, of which a worker can hold {EDGES_MAX:,}",
        )
        inside = inside.join(sizes.where(f"count <= {EDGES_MAX}").select("low"), "low", "left_semi")
    pieces = (0 if row is None else row["edges"]) // _EDGES_AT_ONCE + 1
    return (
        inside.withColumn("piece", f.expr(f"pmod(hash(low), {pieces})"))
        .groupBy("piece")
        .applyInArrow(_find, _KNOTS_DDL)
        .where(f"kind {'=' if reads_alone else '!='} '{READS}'")
    )


def _islands(inputs: Inputs, edges: DataFrame) -> DataFrame:
    """low, high: what no cycle leaves. Transactions of the same moment count as against the order in either
    direction, which makes islands larger than need be, and is right. A million intervals are two columns of
    numbers, and merged at home; more of them in one worker."""
    from pyspark.sql import functions as f

    intervals = (
        edges.where(_BACKWARD).groupBy(f.col("target_us").alias("low")).agg(f.max("source_us").alias("high"))
    )
    found = intervals.limit(_HOME_MAX + 1).toArrow()
    if len(found) > _HOME_MAX:
        return intervals.coalesce(1).sortWithinPartitions("low").mapInArrow(_merge, "low bigint, high bigint")
    (batch,) = _merge(iter(found.sort_by("low").to_batches()))
    return inputs.spark.createDataFrame(pa.Table.from_batches([batch]))


def _merge(batches: Iterator[Any]) -> Iterator[Any]:
    def intervals() -> Iterator[tuple[int, int]]:
        for batch in batches:
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)

    islands = list(merged(intervals()))
    lows, highs = [low for low, _ in islands], [high for _, high in islands]
    yield pa.RecordBatch.from_arrays(
        [pa.array(lows, pa.int64()), pa.array(highs, pa.int64())], names=["low", "high"]
    )


def _find(table: Any) -> Any:
    """The knots among these edges, which may be those of several islands."""
    when: dict[str, int] = {}
    for end in ("source", "target"):
        when |= zip(table[end].to_pylist(), table[f"{end}_us"].to_pylist(), strict=True)
    names = sorted(when, key=lambda name: (when[name], name))
    number_of = {name: number for number, name in enumerate(names)}
    ends = ((number_of[name] for name in table[end].to_pylist()) for end in ("source", "target"))
    edges = map(Edge, *ends, table["kind"].to_pylist(), range(len(table)))
    found = []
    for knot in knots(edges):
        rows = table.take([edge.row for edge in knot.example]).to_pylist()
        times = [when[names[member]] for member in knot.members]
        found.append(
            {
                "kind": knot.kind,
                "members": len(knot.members),
                "topic": rows[0]["topic"],
                "partition": rows[0]["partition"],
                "offset": rows[0]["target_offset"],
                "time_us": min(times),
                "until_us": max(times),
                "detail": _words(rows, others=len(knot.members) - len(rows)),
            }
        )
    return pa.Table.from_pylist(found, _KNOTS)


def _words(cycle: list[dict[str, Any]], others: int) -> str:
    parts = [cycle[0]["source"]]
    for row in cycle[:_SHOWN_MAX]:
        place = f"{row['topic']}-{row['partition']}"
        if row["kind"] == WRITES:
            why = f"both wrote {place}: offsets {row['source_offset']}, {row['target_offset']}"
        else:
            why = f"which read {place} offset {row['target_offset']}"
        parts.append(f"{row['target']} ({why})")
    told = " → ".join(parts)
    if len(cycle) > _SHOWN_MAX:
        told += f" → … and {len(cycle) - _SHOWN_MAX} more"
    return f"{told}; {others} more transactions are tied up with these" if others else told
