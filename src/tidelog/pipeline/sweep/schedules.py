"""The smallest failing schedule of each bad cell, as a scenario file that can be replayed and looked at.

Shrinking replays a schedule hundreds of times, so it is done on Spark too, one task for each kind of failure
under one mix of faults. Within a task a schedule that is already small is tried on the next cell first: most
failures of neighbouring cells are the same failure, and a reader is better served by few stories than by
many. What is shrunk for is the verdict itself, a lost record, not a rule broken on the way.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.core.types import InvariantViolation
from tidelog.faults.step import Step
from tidelog.lab.search.count import schedule
from tidelog.lab.search.schedule import Violation
from tidelog.lab.search.shrink import shrink
from tidelog.lab.world.boot import booted
from tidelog.lab.world.snapshot import judge
from tidelog.lab.world.stage import script_runner
from tidelog.lab.world.world import Stuck
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.sweep.cells import OPERATIONS, Cell, cell_named, faults_of
from tidelog.pipeline.sweep.store import SCHEDULES, Store
from tidelog.pipeline.sweep.summary import CellCount
from tidelog.scenario.narration import wrap_comment
from tidelog.scenario.scenario import Scenario, print_scenario
from tidelog.scenario.violations import Broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLAYS_MAX = 600
"""For one cell. More make a schedule a step or two shorter, seldom a better story."""
_SCHEMA = "cell string, kind string, seed long, steps int, message string, text string"
_ARROW = {
    **{"cell": pa.string(), "kind": pa.string(), "seed": pa.int64(), "steps": pa.int32()},
    **{"message": pa.string(), "text": pa.string()},
}


class ScheduleRequest(NamedTuple):
    """A trial to be made small: it shows ``kind`` in ``cell``."""

    cell: str
    kind: str
    seed: int


@dataclass(slots=True, frozen=True)
class Shown:
    """A failure made small."""

    cell: str
    kind: str
    seed: int
    steps: int
    message: str
    text: str
    """The scenario file."""

    @property
    def file(self) -> str:
        return f"{SCHEDULES}/{self.cell}.{self.kind}.scenario"


def wanted(counts: Sequence[CellCount]) -> list[ScheduleRequest]:
    """Of every cell in which something went wrong, the worst."""
    found = []
    for count in counts:
        kind = count.worst()
        if kind is not None:
            found.append(ScheduleRequest(count.cell.name, kind, count.examples[kind]))
    return found


def shrink_on_spark(
    spark: SparkSession, store: Store, trials: Sequence[ScheduleRequest], *, replays: int = REPLAYS_MAX
) -> list[Shown]:
    """Make them small and write the files. Raises `PipelineError`."""
    groups: dict[tuple[str, str], list[ScheduleRequest]] = {}
    for trial in trials:
        groups.setdefault((trial.kind, cell_named(trial.cell).faults), []).append(trial)
    if not groups:
        return []
    plan = sorted(groups.values(), key=len, reverse=True)  # so that the longest is not the last to end

    def shrink_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = [asdict(one) for one in shrink_group(plan[number], replays)]
                yield pa.RecordBatch.from_pylist(rows, pa.schema(_ARROW))

    try:
        numbers = spark.range(0, len(plan), 1, len(plan))
        rows = numbers.mapInArrow(shrink_all, _SCHEMA).collect()
    except Exception as error:  # Spark's errors share no class
        raise PipelineError(f"the schedules cannot be made small: {first_line(error)}") from error
    shown = sorted((Shown(**row.asDict()) for row in rows), key=lambda one: one.cell)
    for one in shown:
        store.write(one.file, one.text)
    return shown


def shrink_group(trials: Sequence[ScheduleRequest], replays: int) -> Iterator[Shown]:
    """Failures of one kind under one mix: what is small already is tried on the next one first."""
    small: list[list[Step]] = []
    for trial in trials:
        cell = cell_named(trial.cell)
        known = next((found for steps in small if (found := _same(cell, trial, steps))), None)
        finding = known or _shrunk(cell, trial, replays)
        if finding is None:
            continue
        if known is None:
            small.append(finding.scenario.steps)
            small.sort(key=len)
        yield _shown(cell, trial, finding)


def _same(cell: Cell, trial: ScheduleRequest, steps: list[Step]) -> Violation | None:
    """Whether steps that failed elsewhere fail in the same way here."""
    scenario = replace(cell.scenario(), steps=steps)
    broken = verdict_of(scenario, trial.kind)
    return None if broken is None else Violation(scenario, trial.kind, broken.message, trial.seed)


def _shrunk(cell: Cell, trial: ScheduleRequest, replays: int) -> Violation | None:
    scenario = schedule(cell.scenario(), trial.seed, operations=OPERATIONS, faults=faults_of(cell.faults))
    broken = verdict_of(scenario, trial.kind)
    if broken is None:
        return None
    finding = Violation(scenario, trial.kind, broken.message, trial.seed)
    return shrink(finding, budget=replays, trouble=lambda tried, _end: verdict_of(tried, trial.kind))


def verdict_of(scenario: Scenario, kind: str) -> Broken | None:
    """Play it, and say what of this kind is wrong in the end."""
    try:
        world = booted(scenario.setup, _nobody)
        actions = script_runner(scenario, world)
        for step in scenario.steps:
            actions.perform(step)
    except (InvariantViolation, Stuck):
        return None
    found = judge(world).as_json()[kind]
    if not found:
        return None
    key = "offset" if kind == "diverged" else "value"
    at = "at offset " if kind == "diverged" else ""
    return Broken(kind, f"{kind} {at}{', '.join(str(one[key]) for one in found)}")


def _nobody(_event: object) -> None:
    pass


def _shown(cell: Cell, trial: ScheduleRequest, finding: Violation) -> Shown:
    name = f"{trial.cell}.{trial.kind}"
    title = f"{cell.generation} under {cell.faults}: {finding.message}"
    used = {step.client for step in finding.scenario.steps}
    clients = [client for client in cell.scenario().clients if client.name in used]
    scenario = replace(finding.scenario, name=name, title=title, clients=clients)
    if verdict_of(scenario, trial.kind) is None:  # a client that does nothing has its place, too
        scenario = replace(scenario, clients=cell.scenario().clients)
    path = shlex.quote(f"{name}.scenario")
    lines = wrap_comment(
        f"When it ends: {finding.message}. No smaller schedule of this cell was found to do it."
    )
    lines += [
        "#",
        f"# Watch it:     tidelog scenario run {path}",
        f"# Replay it:    tidelog replay {path}",
        f"# Look at it:   tidelog lab {path}",
        f"# Find it anew: tidelog sweep --replay {trial.cell}:{trial.seed}",
    ]
    text = "\n".join(lines) + "\n\n" + print_scenario(scenario)
    return Shown(trial.cell, trial.kind, trial.seed, len(scenario.steps), finding.message, text)
