"""What a live audit remembers of a partition, and what it makes of it: no Spark needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidelog.pipeline.live import memory as memories
from tidelog.pipeline.live.findings import Finding, in_runs
from tidelog.pipeline.live.memory import Memory, Sightings, marked


def seen(*rows: tuple[str, int, str | None, int]) -> Sightings:
    """Rows of who, offset, value, and the offset that was waited for: -1 is an acknowledgement."""
    whos, offsets, values, positions = zip(*rows, strict=True)
    return Sightings(
        offset=np.array(offsets, np.int64),
        mark=marked(np.array([hash(value) for value in values], np.int64)),
        has_value=np.array([value is not None for value in values]),
        is_read=np.array([position >= 0 for position in positions]),
        position=np.array(positions, np.int64),
        time_us=np.arange(len(rows), dtype=np.int64),
        who=np.array(whos, object),
        value=np.array(values, object),
    )


def ours(first: int, *values: str) -> Sightings:
    """Records that we read ourselves, from an offset on."""
    return seen(*((None, first + n, value, 0) for n, value in enumerate(values)))  # type: ignore[arg-type]


def facts(found: list[Finding]) -> list[tuple[Any, ...]]:
    return [(finding.anomaly, finding.offset, finding.value, finding.consumer) for finding in found]


def reads(who: str, first: int, *values: str) -> list[tuple[str, int, str | None, int]]:
    return [(who, first + n, value, first + n) for n, value in enumerate(values)]


def test_what_agrees_is_no_finding() -> None:
    """Acknowledgements and reads of the same records, in any order and by any client, records without a value
    included."""
    memory = Memory()
    assert memory.see(seen(("p", 1, "b", -1), *reads("c1", 0, "a", "b"))) == []
    assert memory.see(seen(*reads("c2", 0, "a", "b"), ("p", 0, "a", -1))) == []
    assert memory.see(seen(("c1", 2, None, 2), ("c1", 3, None, 3))) == []


def test_another_value_at_an_offset_is_told_once() -> None:
    """Rewritten if both were read, inconsistent if one was only acknowledged; in one batch or across."""
    memory = Memory()
    memory.see(seen(*reads("c1", 0, "a", "b"), ("p", 2, "c", -1)))
    found = memory.see(seen(*reads("c2", 1, "x", "y")))
    assert facts(found) == [("rewritten", 1, "x", "c2"), ("inconsistent offset", 2, "y", "c2")]
    assert memory.see(seen(*reads("c1", 1, "x", "y"))) == []
    assert facts(memory.see(seen(*reads("c1", 7, "q"), ("c2", 7, "r", 7)))) == [("rewritten", 7, "r", "c2")]


def test_a_value_at_two_offsets_is_told_once() -> None:
    """Only what was read twice is there twice: a producer gets one offset, whatever became of it."""
    memory = Memory()
    assert memory.see(seen(("p", 0, "a", -1), *reads("c1", 5, "a"))) == []
    assert facts(memory.see(seen(*reads("c1", 0, "a")))) == [("duplicated", 5, "a", "c1")]
    assert memory.see(seen(*reads("c2", 0, "a"), *reads("c2", 5, "a"))) == []


def test_a_jump_is_a_skip_when_something_is_known_to_stand_there() -> None:
    """Also if that becomes known later; before, it may have been a record of the protocol."""
    memory = Memory()
    assert memory.see(seen(("c1", 3, "d", 1))) == []
    found = memory.see(seen(*reads("c2", 0, "a", "b", "c")))
    assert facts(found) == [("poll skip", 1, None, "c1")]
    assert found[0].count == 2
    assert memory.see(seen(*reads("c3", 0, "a", "b", "c"))) == []
    found = memory.see(seen(("p", 4, "e", -1), ("c1", 5, "f", 4)))
    assert facts(found) == [("gap", 4, None, "c1")]


def test_a_step_back_is_told() -> None:
    memory = Memory()
    found = memory.see(seen(*reads("c1", 0, "a", "b"), ("c1", 0, "a", 2)))
    assert facts(found) == [("non-monotonic poll", 0, "a", "c1")]
    assert found[0].detail == "c1 waited for offset 2 and was given 0"


def test_a_live_topic_shows_gaps_unless_it_is_compacted() -> None:
    """What is read once more is compared, not counted again."""
    memory, compacted = Memory(), Memory()
    for kept, dense in ((memory, True), (compacted, False)):
        assert kept.see(ours(100, "a", "b"), ours=True, dense=dense) == []
    found = memory.see(ours(104, "e"), ours=True, dense=True)
    assert [(f.anomaly, f.offset, f.last_offset, f.count) for f in found] == [("gap", 102, 103, 2)]
    assert compacted.see(ours(104, "e"), ours=True, dense=False) == []
    found = memory.see(ours(101, "x", "y"), ours=True, dense=True)
    assert facts(found) == [("rewritten", 101, "x", None)]
    assert memory.waits_for == 105


def test_a_memory_that_was_put_away_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is packed and unpacked finds what it would have found, and no more."""
    memory = Memory()
    memory.see(seen(*reads("c1", 0, "a", "b"), ("c1", 5, "f", 2)))
    memory.see(seen(*reads("c2", 0, "x")))
    memory = Memory.unpack(*memory.pack())
    found = memory.see(seen(*reads("c2", 0, "a", "b", "c"), *reads("c2", 7, "a")))
    assert facts(found) == [("duplicated", 7, "a", "c2"), ("poll skip", 2, None, "c1")]


def test_a_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It forgets what lies further back than its window, and says nothing about it."""
    monkeypatch.setattr(memories, "WINDOW", 8)
    memory = Memory()
    memory.see(seen(*reads("c1", 0, *"abcdefgh")))
    memory.see(seen(*reads("c1", 8, *"ijk")))
    assert (memory.first, len(memory.marks)) == (3, 8)
    assert memory.see(seen(*reads("c2", 0, "x", "y"))) == []
    assert facts(memory.see(seen(*reads("c2", 3, "z")))) == [("rewritten", 3, "z", "c2")]
    memory.see(seen(*reads("c1", 1_000, "q")))
    assert (memory.first, len(memory.marks)) == (993, 8)
    assert memory.see(seen(*reads("c1", 1_001, "k"))) == []


def test_neighbours_are_one_finding() -> None:
    """And of very many the rest is counted."""
    memory = Memory()
    memory.see(seen(*reads("c1", 0, *"abcdefgh")))
    found = memory.see(seen(*reads("c2", 0, "A", "B"), *reads("c2", 4, "E"), *reads("c2", 6, "G")))
    merged = in_runs(found, 2)
    assert [(f.offset, f.last_offset, f.count) for f in merged] == [(0, 1, 2), (4, 6, 2)]
    assert merged[1].detail.endswith("; and more like it")
