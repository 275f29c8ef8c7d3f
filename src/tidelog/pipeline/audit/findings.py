"""What an audit finds, in one schema for every kind of anomaly, so that all of them are one table.

Rules of the file:

* A *violation* breaks a promise; a *notice* breaks none and is worth knowing.
* Times are microseconds by the clock of whoever told, as in the evidence. Of a send, `time_us` is when it was
  handed to the client and `until_us` when its outcome was known; of a read, `time_us` is when the poll
  returned; of a window, they are its beginning and its end.
* A column that a kind has nothing to say about is null.
"""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VIOLATION: Final = "violation"
NOTICE: Final = "notice"


class Circumstance(StrEnum):
    """What was seen beside a finding that decides about its cause. `detail` says the same in words."""

    NEW_IDENTITY = "new_identity"
    """The copies carry different producer ids or epochs."""
    MOVED_BY_GROUP = "moved_by_group"
    """The consumer belongs to a group that may have moved it."""
    NO_LEADER = "no_leader"
    TOO_FEW_IN_SYNC = "too_few_in_sync"
    LEADER_DOWN = "leader_down"
    SILENCE = "silence"
    """Nothing was acknowledged though a send waited."""


COLUMNS: Final = {
    "anomaly": "string",
    "severity": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "leader_epoch": "int",
    "value": "string",
    "producer": "string",
    "sequence": "bigint",
    "acks": "int",
    "consumer": "string",
    "broker": "int",
    "time_us": "bigint",
    "until_us": "bigint",
    "count": "bigint",
    "detail": "string",
    "circumstance": "string",
}
"""Name and Spark type of every column."""

ANOMALIES: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
"""The same as Spark's DDL."""


def anomalies(found: DataFrame, anomaly: str, severity: str | Column, **columns: str | Column) -> DataFrame:
    """Rows of the common schema. `columns` says what fills a column, as SQL or as a Spark column; one that is
    not mentioned is taken from `found` if it is there, and null otherwise."""
    from pyspark.sql import functions as f

    present = set(found.columns)
    # A severity that was decided row by row and cannot be told (a null in between) is the graver one.
    level = f.lit(severity) if isinstance(severity, str) else f.coalesce(severity, f.lit(VIOLATION))
    chosen = []
    for name, kind in COLUMNS.items():
        given = columns.get(name)
        if name == "anomaly":
            column = f.lit(anomaly)
        elif name == "severity":
            column = level
        elif given is not None:
            column = f.expr(given) if isinstance(given, str) else given
        elif name in present:
            column = f.col(name)
        else:
            column = f.lit(None)
        chosen.append(column.cast(kind).alias(name))
    return found.select(*chosen)


def together(*found: DataFrame | None) -> DataFrame | None:
    """All of them; None: there is none."""
    present = [part for part in found if part is not None]
    return reduce(lambda one, other: one.unionByName(other), present) if present else None
