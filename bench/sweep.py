"""How fast a sweep is: trials per second on Spark, against the same trials in a plain pool of processes.

    python -m bench.sweep [--seeds N] [--cores 2] [--rounds 2]

Both play the same cells and seeds, in the same pieces, on the same number of cores, alternating; both are
warm (Spark is started, its workers have played a little; the pool's processes have, too). The aim is that
Spark costs at most a tenth. What a million trials would take is said for the rate that was reached.

On a machine with other work the clock says little, so the CPU time of all processes is given as well: of
Spark with its Java, its workers and their children.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter

from tidelog.pipeline.spark.session import open_session
from tidelog.pipeline.sweep.cells import OPERATIONS, Cell
from tidelog.pipeline.sweep.grid import DEFAULT_AXES, make_grid
from tidelog.pipeline.sweep.player import Block, rows_of
from tidelog.pipeline.sweep.sizing import seconds_per_trial, span
from tidelog.pipeline.sweep.spark_jobs import TASK_S, Task, play_on_spark, tasks_of
from tidelog.pipeline.sweep.store import Store

AIM_SHARE = 0.9
AIM_SECONDS = 900
MILLION = 1_000_000


def play_task(task: Task) -> int:
    """One piece of work, as the pool does it: without supervision, and nothing is written."""
    return sum(1 for block in task for _ in rows_of(block))


@dataclass(slots=True)
class Measured:
    """Trials, and the seconds they took: of the clock and of all cores."""

    trials: int
    wall_s: float
    cpu_s: float


def measured(tasks: Sequence[Task], play: Callable[[], object]) -> Measured:
    trials = sum(block.size for task in tasks for block in task)
    cpu, start = family_cpu_s(), perf_counter()
    play()
    return Measured(trials, perf_counter() - start, family_cpu_s() - cpu)


def family_cpu_s() -> float:
    """CPU time of this process and of all that it started, those included that have ended since."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile; its time was taken where it was waited for
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= grown
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def plan(cells: Sequence[Cell], seeds: int, first: int, trial_s: float) -> list[Task]:
    blocks = [Block(cell.name, first, first + seeds) for cell in cells]
    return tasks_of(blocks, max(1, int(TASK_S / trial_s)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=60, help="trials of each cell in a round")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    cells = make_grid(DEFAULT_AXES).cells
    trial_s = seconds_per_trial(cells)
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-sweep-"))
    found: dict[str, list[Measured]] = {"process pool": [], "Spark": []}
    try:
        spark = open_session(master=f"local[{arguments.cores}]", app="bench", quick=True)
        with ProcessPoolExecutor(arguments.cores, mp_context=get_context("spawn")) as pool:
            warm = plan(cells[:: len(cells) // 8], 4, 1 << 41, trial_s) * arguments.cores
            list(pool.map(play_task, warm))
            play_on_spark(spark, Store(folder / "warm"), warm)
            for number in range(arguments.rounds):
                tasks = plan(cells, arguments.seeds, number * arguments.seeds, trial_s)
                store = Store(folder / f"round-{number}")
                found["process pool"].append(measured(tasks, lambda t=tasks: list(pool.map(play_task, t))))  # type: ignore[misc]
                found["Spark"].append(measured(tasks, lambda t=tasks, s=store: play_on_spark(spark, s, t)))  # type: ignore[misc]
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{len(cells)} cells × {arguments.seeds} seeds, {OPERATIONS} operations a trial, {arguments.cores} "
        f"of {os.cpu_count()} cores, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}"
    )
    rates = {name: median(one.trials / one.wall_s for one in rounds) for name, rounds in found.items()}
    costs = {name: median(one.cpu_s / one.trials * 1e3 for one in rounds) for name, rounds in found.items()}
    for name in found:
        print(f"{name:<14} {rates[name]:7.0f} trials/s   {costs[name]:6.2f} ms of CPU a trial")
    by_clock, by_cpu = rates["Spark"] / rates["process pool"], costs["process pool"] / costs["Spark"]
    print(f"Spark / pool   {by_clock:7.2f} by the clock, {by_cpu:.2f} by CPU time; aim {AIM_SHARE}")
    seconds = MILLION / rates["Spark"]
    print(f"a million trials on Spark: {span(seconds)}, aim {span(AIM_SECONDS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
