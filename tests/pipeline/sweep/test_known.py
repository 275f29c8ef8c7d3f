"""What a sweep finds against what is known: the catalogue's losses, and the published models of replication.

Every line names a configuration under which records are known to be lost, or to be safe. Where a loss is
known, a trial of the sweep shows it (the seed was found by one, and plays the same for ever); where the rules
exclude it, no trial does. ``pytest --effort`` sets how many are tried.
"""

from __future__ import annotations

import pytest
from tests.effort import tries

from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.player import Block, rows_of
from tidelog.pipeline.sweep.rows import COLUMNS

HARM = ("lost", "diverged", "rewritten", "phantom")
TRIES = tries(15)


def harm(cell: Cell, first: int, end: int) -> set[str]:
    assert cell.plain() == cell
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(Block(cell.name, first, end))]
    # Older brokers exit instead of truncating, and those of 0.10 that start while there is no controller
    # ignore their role until the next one.
    recovers = (
        {"held", "violated"}
        if cell.generation not in ("hw", "kip101")
        else {"held", "violated", "unrecovered"}
    )
    assert {row["outcome"] for row in rows} <= recovers
    return {kind for row in rows for kind in HARM if row[kind]}


LOSES = [
    ("hw-loss", Cell(generation="hw", faults="crash"), 254, "lost"),
    ("hw-loss, two in sync", Cell(generation="hw", faults="crash", min_insync=2), 254, "lost"),
    ("hw-divergence", Cell(generation="hw", faults="pause"), 100, "diverged"),
    ("hw-divergence-power", Cell(generation="hw", faults="power"), 134, "diverged"),
    ("TLA+ KafkaTruncateToHighWatermark", Cell(generation="hw", faults="all"), 159, "lost"),
    ("kip-279, fast fail-over", Cell(generation="kip101", faults="pause"), 11, "diverged"),
    ("TLA+ Kip101", Cell(generation="kip101", faults="pause"), 1230, "lost"),
    ("acks-1-loss", Cell(acks="1", faults="crash"), 4, "lost"),
    ("acks-1-loss, majority", Cell(generation="majority", acks="1", faults="crash"), 6, "lost"),
    ("acks-0-loss", Cell(acks="0", faults="crash"), 0, "lost"),
    ("isolate-leader-zone", Cell(acks="1", faults="zone"), 0, "lost"),
    ("unclean-election", Cell(unclean=True, faults="crash"), 1, "lost"),
    ("kip-966-last-replica-standing", Cell(min_insync=2, faults="power"), 1, "lost"),
    ("a majority that does not flush", Cell(generation="majority", faults="power"), 1, "lost"),
    ("all copies in one zone", Cell(min_insync=2, faults="blackout", zones=1), 1, "lost"),
    ("TLA+ Kip279", Cell(without="kip320", faults="all"), 1217, "diverged"),
]
"""(what knows of it, where, a seed that shows it, what happens)"""

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


@pytest.mark.parametrize(
    ("cell", "seed", "kind"), [line[1:] for line in LOSES], ids=[words for words, *_ in LOSES]
)
def test_what_is_known_to_be_lost_is_found(cell: Cell, seed: int, kind: str) -> None:
    """The sweep reaches it, under the rules and settings that allow it."""
    assert kind in harm(cell, seed, seed + 1)


def test_duplicates_are_the_retries_of_plain_producers() -> None:
    """As `retries-duplicate` and `idempotent-no-duplicate` say: with retries some record is written twice,
    and none is if the producer is idempotent."""
    plain, idempotent = Cell(faults="network"), Cell(faults="network", idempotent=True)
    assert any(row[COLUMNS.index("duplicated")] for row in rows_of(Block(plain.name, 0, 20)))
    for row in rows_of(Block(idempotent.name, 0, TRIES)):
        assert row[COLUMNS.index("duplicated")] == 0
