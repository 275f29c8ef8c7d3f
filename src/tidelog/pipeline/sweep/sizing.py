"""How long a sweep will take: measured on a sample before it starts, because it may take days."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import perf_counter

from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.player import Block, rows_of

ASK_FROM_S = 3_600.0
"""A sweep that takes longer is started only with `--yes`."""
_SAMPLE_CELLS = 12
_SAMPLE_S = 1.5
_SEED = 1 << 40
"""Seeds that no sweep plays: a sample must not make its cells look quicker by what it leaves in caches."""


def seconds_per_trial(cells: Sequence[Cell], sample_s: float = _SAMPLE_S) -> float:
    """Of one core, over cells from all parts of the grid."""
    every = max(1, len(cells) // _SAMPLE_CELLS)
    chosen = list(islice(cells[::every], _SAMPLE_CELLS))
    for cell in chosen:  # the first trial of a cell boots its cluster
        list(rows_of(Block(cell.name, _SEED, _SEED + 1)))
    trials, seed, start = 0, _SEED + 1, perf_counter()
    while True:
        for cell in chosen:
            trials += len(list(rows_of(Block(cell.name, seed, seed + 2))))
        seed += 2
        spent = perf_counter() - start
        if spent >= sample_s:
            return spent / trials


def span(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5_400:
        return f"{round(seconds / 60)} min"
    if seconds < 36 * 3_600:
        return f"{seconds / 3_600:.1f} h"
    return f"{seconds / 86_400:.1f} days"
