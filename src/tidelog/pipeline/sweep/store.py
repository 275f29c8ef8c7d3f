"""The folder of a sweep, and what is still missing in it.

    sweep.json           what was asked for, and by which rules it was played
    trials/*.parquet     one row per trial; each file is whole, or not there
    cells.json           the counts per cell
    schedules/*.scenario the smallest failing schedule of each bad cell
    atlas.html           all of it to look at

Rules of the file: a trial is named by (cell, seed) and plays the same every time, so a sweep that was
interrupted goes on by playing what is not there. Trials of different rules never meet in one folder: the
code that decides how a trial goes is summed up in the manifest.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog._version import __version__
from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.sweep.cells import OPERATIONS
from tidelog.pipeline.sweep.grid import Grid
from tidelog.pipeline.sweep.player import Block
from tidelog.storage.durable import write_synced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = "sweep.json"
TRIALS = "trials"
CELLS = "cells.json"
SCHEDULES = "schedules"
PAGE = "atlas.html"

_ODD = frozenset(":*?[]{}\\,")
"""Characters that mean something in paths of Hadoop's."""

_DECIDING = (
    "core",
    "core/controller",
    "core/generations",
    "core/replication",
    "faults",
    "keeper/tree.py",
    "storage/memory.py",
    "lab/search/count.py",
    "lab/search/schedule.py",
    "lab/world",
    *(
        f"scenario/{name}.py"
        for name in ("conditions", "keeper_members", "setup", "snapshot", "verbs", "verdict")
    ),
    "scenario/clients",
    "pipeline/sweep/cells.py",
)
"""The sources that decide how a trial goes."""


def rules_print() -> str:
    """A short sum of the code that decides how a trial goes. Comments, docstrings and format do not count:
    a sweep can go on after an edit of those."""
    total = hashlib.sha256()
    root = files("tidelog")
    for name in _DECIDING:
        place = root.joinpath(name)
        texts = [place] if place.is_file() else sorted(place.iterdir(), key=lambda entry: entry.name)
        for text in texts:
            if text.name.endswith(".py"):
                total.update(_code_of(text.read_text(encoding="utf-8")).encode())
    return total.hexdigest()[:16]


def _code_of(source: str) -> str:
    """A module without its comments and docstrings, in one format."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_docstring(each)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_docstring(node: ast.stmt) -> bool:
    """Whether it is a string on its own: of a module, a class, a function or an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@dataclass(slots=True, frozen=True)
class Store:
    folder: Path

    @property
    def trials(self) -> Path:
        return self.folder / TRIALS

    def open(self, grid: Grid, seeds: int, *, fresh: bool = False) -> None:
        """Make the folder ready for this sweep, whatever of it is there. Raises `PipelineError`."""
        manifest = _manifest(grid, seeds)
        if odd := sorted(set(str(self.folder.absolute())) & _ODD):
            raise PipelineError(
                f"{self.folder}: Spark reads no path with {' '.join(odd)}: name another --out"
            )
        try:
            before = self.manifest()
            if fresh and before is not None:
                for part in (TRIALS, SCHEDULES):
                    shutil.rmtree(self.folder / part, ignore_errors=True)
            elif before is None and self.folder.is_dir() and any(self.folder.iterdir()):
                raise PipelineError(f"{self.folder} holds something else than a sweep: name another --out")
            elif before is not None and before.get("rules") != manifest["rules"]:
                raise PipelineError(
                    f"{self.folder} was swept by other rules than these: name another --out, or give --fresh"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write(MANIFEST, json.dumps(manifest, indent=1) + "\n")
        except OSError as error:
            raise PipelineError(f"{error.filename or self.folder}: {reason(error)}") from None

    def manifest(self) -> dict[str, Any] | None:
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text("utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise PipelineError(f"{path} cannot be read: name another --out, or remove it")
        return found

    def write(self, name: str, text: str) -> Path:
        """A reader sees the old file or the new one."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, text.encode())
        return path

    # ------------------------------------------------------------ what is there

    def holds_trials(self) -> bool:
        return self.trials.is_dir() and any(self.trials.glob("*.parquet"))

    def runs(self, spark: SparkSession) -> dict[str, list[tuple[int, int]]]:
        """For each cell the seeds that were played, as runs without a gap: (first, behind the last)."""
        if not self.holds_trials():
            return {}
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        place = f.row_number().over(Window.partitionBy("cell").orderBy("seed"))
        rows = (
            spark.read.parquet(str(self.trials.absolute()))
            .select("cell", "seed")
            .distinct()
            .select("cell", "seed", (f.col("seed") - place).alias("run"))
            .groupBy("cell", "run")
            .agg(f.min("seed").alias("first"), f.max("seed").alias("last"))
            .collect()
        )
        found: dict[str, list[tuple[int, int]]] = {}
        for row in rows:
            found.setdefault(row["cell"], []).append((row["first"], row["last"] + 1))
        return found


def _manifest(grid: Grid, seeds: int) -> dict[str, Any]:
    return {
        "tidelog": __version__,
        "rules": rules_print(),
        "axes": {axis: list(values) for axis, values in grid.axes.items()},
        "seeds": seeds,
        "operations": OPERATIONS,
        "dropped": [{"cell": dropped.cell.name, "reason": dropped.reason} for dropped in grid.dropped],
    }


def missing(cells: Iterable[str], seeds: int, runs: Mapping[str, Sequence[tuple[int, int]]]) -> list[Block]:
    """What of the seeds 0 to before ``seeds`` of every cell is in no run."""
    left: list[Block] = []
    for cell in cells:
        at = 0
        for first, end in sorted(runs.get(cell, ())):
            if at < min(first, seeds):
                left.append(Block(cell, at, min(first, seeds)))
            at = max(at, end)
        if at < seeds:
            left.append(Block(cell, at, seeds))
    return left
