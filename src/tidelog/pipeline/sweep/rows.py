"""One trial as a row: the columns of the Parquet files, and how a tally becomes one.

``cell`` and ``seed`` name the trial and are all that is needed to play it again. Counts of what went wrong
have their own names, faults that came about begin with ``fault_``, transitions of the rules that were passed
through with ``seen_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from tidelog.lab.search.count import MARKS, MEASURES, TrialCounts
from tidelog.lab.search.schedule import ALL_FAULT_KINDS
from tidelog.scenario.scenario import VERDICT_KINDS

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

Row = tuple[Any, ...]

TEXTS = ("cell", "outcome", "reason")
FAULTS = tuple(f"fault_{kind}" for kind in ALL_FAULT_KINDS)
SEEN = tuple(f"seen_{mark}" for mark in MARKS)
COLUMNS = ("cell", "seed", "outcome", "reason", *VERDICT_KINDS, *MEASURES, *FAULTS, *SEEN)
OUTCOMES = ("held", "violated", "unrecovered", "stuck", "crashed")

_BATCH_ROWS = 2_000


def spark_schema() -> str:
    """The columns in Spark's words."""
    kinds = dict.fromkeys(TEXTS, "string") | {"seed": "long"}
    return ", ".join(f"{name} {kinds.get(name, 'int')}" for name in COLUMNS)


def row_of(cell: str, seed: int, tally: TrialCounts) -> Row:
    return (
        cell,
        seed,
        tally.outcome,
        tally.reason,
        *tally.verdict.values(),
        *tally.measures.values(),
        *tally.faults.values(),
        *tally.marks.values(),
    )


def as_arrow(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The same rows as Arrow batches."""
    import pyarrow as pa

    types = {name: pa.string() for name in TEXTS} | {"seed": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.int32())) for name in COLUMNS])
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH_ROWS)):
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*batch, strict=True), schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
