"""Rows of records: columns line up, the watermark is where it belongs, long logs keep their end."""

from dataclasses import replace

from tidelog.cli.show.replicas import Columns, table
from tidelog.scenario.snapshot import PartitionSnapshot, Record, ReplicaState


def replica(values: str, hw: int, *, epoch: int | None = None, broker: int = 0) -> ReplicaState:
    records: tuple[Record, ...] = tuple((i, epoch, v) for i, v in enumerate(values.split()))
    return ReplicaState(broker, "up", "follower", len(records), hw, records, (), None)


def drawn(replicas: list[ReplicaState], room: int = 60) -> list[str]:
    columns = Columns.fitting(replicas, room)
    rows = [columns.draw(r).plain for r in replicas]
    assert all(len(row) == columns.width for row in rows)
    assert columns.width <= room
    return rows


def test_offsets_stand_below_each_other():
    assert drawn([replica("a bb c", 2), replica("a b", 2), replica("", 0)]) == [
        " a bb|c ",
        " a b |  ",
        "|       ",
    ]


def test_the_watermark_may_lie_beyond_the_log():
    """After a power cut a replica can have less than it once knew to be committed."""
    assert drawn([replica("a", 3), replica("a b c", 3)]) == [" a    |", " a b c|"]


def test_epochs_are_subscripts_and_control_records_dots():
    control: tuple[Record, ...] = ((0, 12, None), (1, 12, "a"))
    assert drawn([replace(replica("x y", 1), records=control)]) == [" ·₁₂|a₁₂ "]


def test_a_long_log_keeps_its_end():
    long = replica(" ".join("abcdefghij"), 9)
    assert drawn([long, replica("a b", 2)], room=10) == ["… g h i|j ", "…         "]


def test_a_long_value_is_cut():
    assert drawn([replica("x" * 40, 1)]) == [" " + "x" * 13 + "…|"]


def test_rows_mark_what_changed():
    before = PartitionSnapshot("t", 0, 0, 0, (0, 1), (replica("a", 1), replica("a", 1, broker=1)))
    after = replace(before, replicas=(replica("a b", 1), before.replicas[1]))
    assert [row.plain[:2] for row in table(after, before, 80)] == ["* ", "  "]
    assert [row.plain[:2] for row in table(after, None, 80)] == ["  ", "  "]
