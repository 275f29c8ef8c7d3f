"""Playing trials in a process that may die: whatever a simulation does, its seed gets a row.

An exception inside a trial becomes a row (`lab.search.count.play`). What no ``except`` catches, a loop
that never ends or a process that is killed because it ate all memory, would take Spark's worker with it, and
after a few attempts the job. So the worker forks: the child plays, the parent collects rows and waits only so
long. When the child is gone or silent, the seed it was at is known, gets its row, and another child goes on
behind it.

The child sends rows in groups, for speed. One that dies takes an unsent group with it; that group is played
again row by row (a seed always plays the same), and then the culprit is the one that is missing.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

from tidelog.lab.search.count import TrialCounts, play
from tidelog.pipeline.sweep.cells import OPERATIONS, cell_named, faults_of
from tidelog.pipeline.sweep.rows import Row, row_of

PATIENCE_S = 60.0
"""A trial takes milliseconds. One that takes so long, even on a machine with other work, does not end."""
_GROUP = 32


class Block(NamedTuple):
    """Seeds of one cell, from ``first`` to before ``end``."""

    cell: str
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def rows_of(block: Block) -> Iterator[Row]:
    """Play them here and now."""
    cell = cell_named(block.cell)
    scenario, faults = cell.scenario(), faults_of(cell.faults)
    for seed in range(block.first, block.end):
        yield row_of(block.cell, seed, play(scenario, seed, operations=OPERATIONS, faults=faults))


def play_guarded(blocks: Sequence[Block], patience_s: float = PATIENCE_S) -> Iterator[Row]:
    """Play them in a process of their own: as many rows as there are seeds, whatever happens."""
    careful_until = at = 0
    names = [(block, block.first + number) for block in blocks for number in range(block.size)]
    while at < len(names):
        group = 1 if at < careful_until else _GROUP
        end = careful_until if at < careful_until else len(names)
        child = _Child(_from(names, at, end), group)
        try:
            for rows in child.groups(patience_s):
                yield from rows
                at += len(rows)
        finally:
            fate = child.end()
        if at < end and group == 1:
            block, seed = names[at]
            yield row_of(block.cell, seed, fate)
            at += 1
        elif at < end:
            careful_until = min(at + _GROUP, len(names))


def _from(names: Sequence[tuple[Block, int]], at: int, end: int) -> list[Block]:
    """The blocks that are left between two places."""
    left: list[Block] = []
    for block, seed in names[at:end]:
        if left and left[-1].cell == block.cell and left[-1].end == seed:
            left[-1] = left[-1]._replace(end=seed + 1)
        else:
            left.append(Block(block.cell, seed, seed + 1))
    return left


class _Child:
    def __init__(self, blocks: Sequence[Block], group: int) -> None:
        self._silent = False
        self._ears, mouth = Pipe(duplex=False)
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                self._ears.close()
                _tell(blocks, group, mouth)
                code = 0
            finally:
                os._exit(code)  # nothing of the parent's may run a second time: no atexit, no flush
        mouth.close()

    def groups(self, patience_s: float) -> Iterator[list[Row]]:
        while True:
            if not self._ears.poll(patience_s):
                self._silent = True
                return
            try:
                yield self._ears.recv()
            except EOFError:
                return

    def end(self) -> TrialCounts:
        """Make sure that it is gone, and say how it went, for the row of the trial it was at."""
        self._ears.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        if self._silent:
            return TrialCounts("stuck", "the simulation did not end in time")
        if os.WIFSIGNALED(status):
            return TrialCounts("crashed", f"the process was ended by signal {os.WTERMSIG(status)}")
        return TrialCounts("crashed", f"the process ended with code {os.WEXITSTATUS(status)}")


def _tell(blocks: Sequence[Block], group: int, mouth: Connection) -> None:
    # Spark's worker may want to hear of signals; a child that is told to go just goes.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # What the worker has loaded stays: looking through it for garbage costs time, and copies of its pages.
    # And a world is garbage as a whole when its trial is over: to look for it after every group is enough.
    gc.freeze()
    gc.disable()
    rows: list[Row] = []
    for block in blocks:
        for row in rows_of(block):
            rows.append(row)
            if len(rows) == group:
                mouth.send(rows)
                rows = []
                gc.collect()
    if rows:
        mouth.send(rows)
