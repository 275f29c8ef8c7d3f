"""What a sweep finds against what is known: the catalogue's losses, and the published models of replication.

Every line names a configuration under which records are known to be lost, or to be safe. Where a loss is
known, a trial of the sweep shows it (the seed was found by one, and plays the same for ever); where the rules
exclude it, no trial does. ``TIDELOG_EFFORT`` sets how many are tried.
"""

from __future__ import annotations

import pytest
from tests.effort import EFFORT

from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.player import Block, rows_of
from tidelog.pipeline.sweep.rows import COLUMNS

HARM = ("lost", "diverged", "rewritten", "phantom")
TRIES = 15 * EFFORT


def harm(cell: Cell, first: int, end: int) -> set[str]:
    assert cell.plain() == cell
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(Block(cell.name, first, end))]
    assert {row["outcome"] for row in rows} <= {"held", "violated"}
    return {kind for row in rows for kind in HARM if row[kind]}


LOSES: list[tuple[str, Cell, str]] = []
"""(what knows of it, where, what happens)"""

SAFE = [
    ("epoch, acks=all, whatever fails but disks", Cell(faults="all", min_insync=2)),
    ("epoch, acks=all, crashes of all brokers", Cell(faults="crash")),
    ("epoch, idempotent, cuts and pauses", Cell(faults="pause+cut", idempotent=True)),
    ("epoch, every write flushed, power fails", Cell(faults="power", flush="always")),
    ("majority, acks=all, whatever fails but disks", Cell(generation="majority", faults="all")),
    ("majority, flushed, power fails", Cell(generation="majority", faults="power", flush="always")),
    ("a majority knows no unclean election", Cell(generation="majority", faults="crash")),
]


@pytest.mark.parametrize("cell", [cell for _, cell in SAFE], ids=[words for words, _ in SAFE])
def test_settings_that_exclude_a_loss_show_none(cell: Cell) -> None:
    """No record that was acknowledged by all is lost, changed or different between replicas."""
    assert harm(cell, 0, TRIES) == set()
