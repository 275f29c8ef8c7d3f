"""A sweep from its grid to its atlas: size it, play what is missing, count, shrink, draw.

Rules of the file: it prints nothing and asks no questions; the caller passes a `CampaignListener`. Every step
can be repeated: finished work is found and kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.spark.waiting import interruptible
from tidelog.pipeline.sweep.grid import Grid
from tidelog.pipeline.sweep.player import Block
from tidelog.pipeline.sweep.schedules import Shown, shrink_on_spark, wanted
from tidelog.pipeline.sweep.sizing import seconds_per_trial
from tidelog.pipeline.sweep.spark_jobs import TASK_S, play_on_spark, tasks_of
from tidelog.pipeline.sweep.store import CELLS, PAGE, Store, missing, rules_print
from tidelog.pipeline.sweep.summary import CellCount, count_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIALS_PER_TASK_MAX = 5_000
_TASKS_PER_CORE_MIN = 4
"""So that the last task of a short sweep does not leave the other cores idle for long."""


class CampaignListener:
    """Follows the progress of a sweep; this one ignores it."""

    def phase(self, words: str, trials: int | None = None) -> None:
        """Something begins; ``trials`` of it, if it is counted."""

    def done(self, trials: int) -> None:
        """The number of trials that are over."""


@dataclass(slots=True, frozen=True)
class Estimate:
    trials: int
    """Left to be played."""
    present: int
    cores: int
    trial_s: float

    @property
    def seconds(self) -> float:
        return self.trials * self.trial_s / self.cores


@dataclass(slots=True)
class Atlas:
    """What a sweep found."""

    grid: Grid
    seeds: int
    counts: list[CellCount]
    shown: list[Shown]
    command: str = ""
    made: str = ""
    """The day, in UTC."""
    rules: str = field(default_factory=rules_print)

    @property
    def trials(self) -> int:
        return sum(count.trials for count in self.counts)

    def as_json(self) -> dict[str, Any]:
        """What `cells.json` holds."""
        return {
            "command": self.command,
            "made": self.made,
            "rules": self.rules,
            "axes": {axis: list(values) for axis, values in self.grid.axes.items()},
            "seeds": self.seeds,
            "trials": self.trials,
            "unexpected": [count.cell.name for count in self.counts if count.unexpected],
            "cells": [count.as_json() for count in self.counts],
            "same_as": {cell.name: plain.name for cell, plain in self.grid.same_as.items()},
            "dropped": [{"cell": one.cell.name, "reason": one.reason} for one in self.grid.dropped],
            "schedules": [
                {"cell": one.cell, "kind": one.kind, "seed": one.seed, "steps": one.steps, "file": one.file}
                for one in self.shown
            ],
        }


@dataclass(slots=True)
class Campaign:
    grid: Grid
    seeds: int
    store: Store
    listener: CampaignListener = field(default_factory=CampaignListener)
    _blocks: list[Block] = field(default_factory=list)
    _estimate: Estimate | None = None

    def prepare(self, spark: SparkSession, *, cores: int | None = None, fresh: bool = False) -> Estimate:
        """Look what is there, and how long the rest will take. Raises `PipelineError`."""
        self.store.open(self.grid, self.seeds, fresh=fresh)
        names = [cell.name for cell in self.grid.cells]
        runs = interruptible(spark, lambda: self.store.runs(spark))
        self._blocks = missing(names, self.seeds, runs)
        left = sum(block.size for block in self._blocks)
        trial_s = seconds_per_trial(self.grid.cells) if left else 0.0
        present = len(names) * self.seeds - left
        self._estimate = Estimate(left, present, cores or cores_of(spark), trial_s)
        return self._estimate

    def play(self, spark: SparkSession) -> None:
        """Play what is missing. Raises `PipelineError`."""
        estimate = self._estimate
        assert estimate is not None, "prepare comes first"
        if not estimate.trials:
            return
        even = estimate.trials // (estimate.cores * _TASKS_PER_CORE_MIN)
        size = max(1, min(int(TASK_S / estimate.trial_s), even, _TRIALS_PER_TASK_MAX))
        self.listener.phase("playing", estimate.trials)
        # Low seeds first, so that a sweep that is interrupted knows a little of every cell.
        tasks = sorted(tasks_of(self._blocks, size), key=lambda task: task[0].first)
        done = self.listener.done
        interruptible(spark, lambda: play_on_spark(spark, self.store, tasks, done=done))

    def conclude(
        self, spark: SparkSession, *, command: str = "", draw: Callable[[Atlas], str] | None = None
    ) -> Atlas:
        """Count, shrink and draw. Raises `PipelineError`."""
        self.listener.phase("counting")
        cells = self.grid.cells
        counts = interruptible(spark, lambda: count_cells(spark, self.store, cells, self.seeds))
        self.listener.phase("making failures small")
        shown = interruptible(spark, lambda: shrink_on_spark(spark, self.store, wanted(counts)))
        today = datetime.now(UTC).date().isoformat()
        atlas = Atlas(self.grid, self.seeds, counts, shown, command, today)
        self.store.write(CELLS, json.dumps(atlas.as_json(), separators=(",", ":")) + "\n")
        if draw is not None:
            self.listener.phase("drawing")
            self.store.write(PAGE, draw(atlas))
        return atlas

    @property
    def page(self) -> Path:
        return self.store.folder / PAGE


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at once, as far as that can be known."""
    if hasattr(spark, "_jsparkSession"):
        return max(1, spark.sparkContext.defaultParallelism)
    return os.cpu_count() or 1
