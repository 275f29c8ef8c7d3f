"""How fast a sweep is: trials per second on Spark, against the same trials in a plain pool of processes.

    python -m bench.sweep [--seeds N] [--cores 2] [--rounds 2]

Both play the same cells and seeds, in the same pieces, on the same number of cores, alternating; both are
warm (Spark is started, its workers have played a little; the pool's processes have, too). The aim is that
Spark costs at most a tenth. What a million trials would take is said for the rate that was reached.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from tidelog.pipeline.session import open_session
from tidelog.pipeline.sweep.cells import OPERATIONS, Cell
from tidelog.pipeline.sweep.grid import DEFAULT_AXES, make_grid
from tidelog.pipeline.sweep.player import Block, rows_of
from tidelog.pipeline.sweep.sizing import seconds_per_trial, span
from tidelog.pipeline.sweep.store import Store
from tidelog.pipeline.sweep.work import TASK_S, Task, play_on_spark, tasks_of

AIM_SHARE = 0.9
AIM_SECONDS = 900
MILLION = 1_000_000


def play_task(task: Task) -> int:
    """One piece of work, as the pool does it: nobody watches over it, and nothing is written."""
    return sum(1 for block in task for _ in rows_of(block))


def in_pool(pool: ProcessPoolExecutor, tasks: Sequence[Task]) -> float:
    start = perf_counter()
    trials = sum(pool.map(play_task, tasks))
    return trials / (perf_counter() - start)


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
    rates: dict[str, list[float]] = {"process pool": [], "Spark": []}
    try:
        spark = open_session(master=f"local[{arguments.cores}]", app="bench")
        with ProcessPoolExecutor(arguments.cores, mp_context=get_context("spawn")) as pool:
            warm = plan(cells[:: len(cells) // 8], 4, 1 << 41, trial_s)
            in_pool(pool, warm * arguments.cores)
            play_on_spark(spark, Store(folder / "warm"), warm * arguments.cores)
            for number in range(arguments.rounds):
                tasks = plan(cells, arguments.seeds, number * arguments.seeds, trial_s)
                trials = sum(block.size for task in tasks for block in task)
                rates["process pool"].append(in_pool(pool, tasks))
                start = perf_counter()
                play_on_spark(spark, Store(folder / f"round-{number}"), tasks)
                rates["Spark"].append(trials / (perf_counter() - start))
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{len(cells)} cells × {arguments.seeds} seeds, {OPERATIONS} operations a trial, {arguments.cores} "
        f"of {os.cpu_count()} cores, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}"
    )
    medians = {name: statistics.median(measured) for name, measured in rates.items()}
    for name, measured in rates.items():
        print(
            f"{name:<14} {medians[name]:7.0f} trials/s  (of {', '.join(f'{rate:.0f}' for rate in measured)})"
        )
    share = medians["Spark"] / medians["process pool"]
    print(f"Spark / pool   {share:7.2f}            aim {AIM_SHARE}")
    seconds = MILLION / medians["Spark"]
    print(f"a million trials on Spark: {span(seconds)}, aim {span(AIM_SECONDS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
