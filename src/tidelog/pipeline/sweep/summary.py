"""The counts of an atlas: one group of Spark's for each cell, and nothing of the trials themselves.

A cell knows how many of its trials lost, duplicated, diverged; which faults came about in how many of them,
alone and in pairs; through which transitions of the rules they went; how long no write was possible; and
which seed shows each failure in the fewest steps. A cell in which no fault of its mix came about is
*unknown*: that nothing was lost in it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tidelog.lab.search.count import MARKS
from tidelog.lab.search.schedule import ALL_FAULT_KINDS
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.sweep.cells import POWERFUL, Cell, cell_named
from tidelog.pipeline.sweep.intervals import Share
from tidelog.pipeline.sweep.rows import OUTCOMES
from tidelog.pipeline.sweep.store import Store
from tidelog.scenario.scenario import VERDICT_KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA_KINDS = ("lost", "diverged", "rewritten", "phantom")
"""What no setting may do to a record that was promised. Duplicates and disorder are the producer's choice."""
SOUND = ("epoch", "elr", "majority")
"""Generations without a known hole."""
_MEASURES = ("sent", "acknowledged", "failed", "unknown", "unavailable_ms", "elapsed_ms")


@dataclass(slots=True)
class CellCount:
    """What the trials of one cell came to. Dictionaries leave out what is zero."""

    cell: Cell
    trials: int
    outcomes: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    """In how many trials each kind of thing went wrong."""
    records: dict[str, int] = field(default_factory=dict)
    """How many records it went wrong with, in all."""
    measures: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    """In how many trials each kind of fault came about."""
    pairs: dict[str, int] = field(default_factory=dict)
    """In how many trials two kinds did."""
    seen: dict[str, int] = field(default_factory=dict)
    """In how many trials each transition of the rules was passed through."""
    examples: dict[str, int] = field(default_factory=dict)
    """For each kind of failure, a seed with as few steps as any; also of what was stuck or crashed."""
    trouble: str = ""
    """Why one of them was stuck or crashed."""

    @property
    def judged(self) -> int:
        """Trials that came to an end, which alone can be judged."""
        return self.trials - self.outcomes.get("stuck", 0) - self.outcomes.get("crashed", 0)

    def share(self, kind: str) -> Share:
        return Share(self.bad.get(kind, 0), self.judged)

    @property
    def exercised(self) -> bool:
        """Whether anything happened here that the cell is about. A mix without faults is about none."""
        kinds = self.cell.kinds
        return self.judged > 0 and (not kinds or any(self.faults.get(kind) for kind in kinds))

    def never_tried(self) -> list[str]:
        """Kinds of the mix that came about in no trial."""
        return [kind for kind in self.cell.kinds if not self.faults.get(kind)]

    @property
    def unavailable(self) -> float | None:
        """The share of simulated time in which no broker could have taken a write."""
        elapsed = self.measures.get("elapsed_ms", 0)
        return self.measures.get("unavailable_ms", 0) / elapsed if elapsed else None

    @property
    def unanswered(self) -> float | None:
        """The share of sends that were not acknowledged."""
        sent = self.measures.get("sent", 0)
        return 1 - self.measures.get("acknowledged", 0) / sent if sent else None

    def worst(self) -> str | None:
        """The gravest kind of failure that was seen."""
        order = ("lost", "rewritten", "diverged", "phantom", "duplicated", "reordered")
        return next((kind for kind in order if self.bad.get(kind)), None)

    @property
    def harmed(self) -> bool:
        """Whether a promise was broken: a record lost, changed, or different from replica to replica."""
        return any(self.bad.get(kind) for kind in DATA_KINDS)

    @property
    def unexpected(self) -> bool:
        """A loss that the rules exclude: a bug, in the rules or in the simulation."""
        return self.harmed and excludes_loss(self.cell)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "cell": self.cell.name}


def excludes_loss(cell: Cell) -> bool:
    """Whether nothing promised may ever be lost here: sound rules, acks=all, only in-sync replicas elected,
    and disks that keep what was acknowledged."""
    keeps = cell.flush == "always" or not any(kind in POWERFUL for kind in cell.kinds)
    return cell.generation in SOUND and not cell.without and cell.acks == "all" and not cell.unclean and keeps


def count_cells(spark: SparkSession, store: Store, cells: Iterable[Cell], seeds: int) -> list[CellCount]:
    """The counts of these cells, in their order, over the seeds that were asked for; also of cells without a
    single trial. Raises `PipelineError`."""
    from pyspark.sql import functions as f

    wanted = list(cells)
    try:
        frame = (
            spark.read.parquet(str(store.trials.absolute()))
            .where(f.col("seed") < seeds)
            .dropDuplicates(["cell", "seed"])
        )
        rows = frame.groupBy("cell").agg(*_aggregates()).collect()
    except Exception as error:  # Spark's errors share no class
        raise PipelineError(f"the trials cannot be counted: {first_line(error)}") from error
    found = {row["cell"]: _count(row.asDict()) for row in rows}
    return [found.get(cell.name) or CellCount(cell, 0) for cell in wanted]


def _aggregates() -> list[Any]:
    from pyspark.sql import functions as f

    def trials_with(condition: Any) -> Any:
        return f.sum(condition.cast("long"))

    columns = [f.count("*").alias("trials"), f.max("reason").alias("trouble")]
    columns += [trials_with(f.col("outcome") == name).alias(f"outcome.{name}") for name in OUTCOMES]
    for kind in VERDICT_KINDS:
        failed = f.col(kind) > 0
        columns.append(trials_with(failed).alias(f"bad.{kind}"))
        columns.append(f.sum(kind).alias(f"records.{kind}"))
        steps = f.when(failed, f.struct("steps", "seed"))
        columns.append(f.min(steps)["seed"].alias(f"example.{kind}"))
    for outcome in ("stuck", "crashed", "unrecovered"):
        seed = f.when(f.col("outcome") == outcome, f.col("seed"))
        columns.append(f.min(seed).alias(f"example.{outcome}"))
    columns += [f.sum(name).alias(f"measure.{name}") for name in _MEASURES]
    came = {kind: f.col(f"fault_{kind}") > 0 for kind in ALL_FAULT_KINDS}
    columns += [trials_with(happened).alias(f"fault.{kind}") for kind, happened in came.items()]
    columns += [
        trials_with(came[one] & came[other]).alias(f"pair.{one}+{other}")
        for one, other in combinations(ALL_FAULT_KINDS, 2)
    ]
    columns += [trials_with(f.col(f"seen_{mark}") > 0).alias(f"seen.{mark}") for mark in MARKS]
    return columns


def _count(row: dict[str, Any]) -> CellCount:
    parts: dict[str, dict[str, int]] = {}
    for name, value in row.items():
        group, dot, key = name.partition(".")
        if dot and value is not None and (value or group == "example"):
            parts.setdefault(group, {})[key] = int(value)
    return CellCount(
        cell_named(row["cell"]),
        row["trials"],
        outcomes=parts.get("outcome", {}),
        bad=parts.get("bad", {}),
        records=parts.get("records", {}),
        measures=parts.get("measure", {}),
        faults=parts.get("fault", {}),
        pairs=parts.get("pair", {}),
        seen=parts.get("seen", {}),
        examples=parts.get("example", {}),
        trouble=row["trouble"] or "",
    )


def count_from_json(value: dict[str, Any]) -> CellCount:
    """The other way round, for a reader of `cells.json` without Spark."""
    return CellCount(**{**value, "cell": cell_named(value["cell"])})
