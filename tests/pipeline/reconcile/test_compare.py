"""Topic against table without Spark: the kernels find what an oracle finds, offset by offset."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.reconcile.specimens import Step, judged, made, steps, value_of, written

from tidelog.pipeline.audit.engines import Local
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile import bits
from tidelog.pipeline.reconcile.bits import STRETCH, Gathering, OffsetSet
from tidelog.pipeline.reconcile.compare import Known, PartitionResult, compare
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.pipeline.reconcile.table_side import PartitionRows, fold_rows, merge_partials
from tidelog.pipeline.reconcile.topic import PartitionLog
from tidelog.pipeline.reconcile.topic_files import read_logs
from tidelog.pipeline.reconcile.values import Compared, _compared, _packed

NOTHING = OffsetSet()


def folded(offsets: Sequence[int], tasks: int = 1) -> PartitionRows:
    """The table's side, as several tasks make it."""
    partials = []
    for task in range(tasks):
        own = np.array(offsets[task::tasks], np.int64)
        rows = pa.RecordBatch.from_pydict(
            {"partition": pa.array(np.zeros(len(own), np.int32)), "offset": pa.array(own)}
        )
        partials += list(fold_rows(iter([rows])))
    found = PartitionRows()
    for batch in merge_partials(iter(partials)):
        for row in batch.to_pylist():
            found.rows += row["rows"]
            found.seen.stretches[row["stretch"]] = row["seen"]
            if row["twice"]:
                found.twice.stretches[row["stretch"]] = row["twice"]
    return found


def log_of(folder: Path, judged_before: int = 0) -> PartitionLog:
    return read_logs(Local(1), [str(folder)], "t", {0: judged_before}).partitions[0]


def checked(result: PartitionResult) -> PartitionResult:
    """Its ranges lie one after the other without a gap, and add up to its counts."""
    at, sums = result.first, dict.fromkeys(result.counts, 0)
    for each in result.ranges:
        assert each.start == at
        assert each.end > each.start
        sums[each.presence, each.cause] += each.offsets
        at = each.end
    assert at == result.end
    assert sums == result.counts
    return result


@given(steps, st.data(), st.integers(1, 5))
def test_what_the_oracle_finds(happened: list[Step], data: st.DataObject, per_file: int) -> None:
    """Markers, aborted and open transactions over several files, compaction, duplicates, rows beyond the end,
    with and without the progress of a query."""
    log = made([("plain", 0, 1), *happened], per_file)
    some = st.lists(st.integers(0, log.end + 3), max_size=60)
    visible = [offset for offset, kind in log.kinds.items() if kind == "record"]
    table = data.draw(some) + (visible if data.draw(st.booleans()) else [])
    query = data.draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, log.end + 8)))
    with tempfile.TemporaryDirectory() as scratch:
        part = log_of(written(Path(scratch) / "t-0", log))
    assert (part.end, part.stable_end) == (log.end, log.stable_end)
    known = Known() if query is None else Known(*query, (query,), query[1])
    result = checked(compare(part, folded(table, data.draw(st.integers(1, 3))), known, NOTHING))
    assert +result.counts == judged(log, table, batches=() if query is None else (query,))
    assert result.rows == len(table)


@given(steps, st.integers(0, 40))
def test_a_log_from_the_middle_on(happened: list[Step], begin: int) -> None:
    """An incremental run sees what is behind the offset as a run over everything does."""
    log = made([*happened, ("plain", 0, 3)])
    with tempfile.TemporaryDirectory() as scratch:
        folder = written(Path(scratch) / "t-0", log)
        whole, later = log_of(folder), log_of(folder, begin)
    for offset in range(begin, log.end):
        stretch, position = divmod(offset, STRETCH)
        for side in ("records", "markers"):
            before, after = getattr(whole, side), getattr(later, side)
            if (side, offset) != ("records", offset) or not whole.aborted.members(stretch)[position]:
                assert after.members(stretch)[position] == before.members(stretch)[position]


@given(st.integers(1, 80), st.sets(st.integers(0, 79)), st.lists(st.integers(1, 79), max_size=4))
def test_skips_as_the_oracle_finds_them(log_start: int, table: set[int], cuts: list[int]) -> None:
    """Rows of a log that begins later than the query did, whose batches end anywhere."""
    log = made([("plain", 0, 10)], start=log_start)
    ends = sorted({*cuts, log_start + 10})
    batches = tuple(zip([0, *ends], ends, strict=False))
    rows = [*(offset for offset in table if offset < log_start), *range(log_start, log_start + 10)]
    with tempfile.TemporaryDirectory() as scratch:
        part = log_of(written(Path(scratch) / "t-0", log))
    result = checked(compare(part, folded(rows), Known(0, ends[-1], batches, ends[-1]), NOTHING))
    expected = judged(log, rows, log_start, batches)
    assert +result.counts == expected
    assert result.uncertain == expected[Presence.ABSENT, AbsenceCause.BEFORE_LOG_START]


def test_retention_and_skips(tmp_path: Path) -> None:
    """Offsets below the log's start are excused, unless a committed batch begins with them; markers that are
    gone are not taken for a skip."""
    part = log_of(written(tmp_path / "t-0", made([("plain", 0, 10)], start=100)))
    assert part.log_start == 100
    rows = folded([*range(50), *range(100, 110)])
    plain = checked(compare(part, rows, Known(), NOTHING))
    assert plain.counts[Presence.ABSENT, AbsenceCause.BEFORE_LOG_START] == 50
    assert plain.accused == []
    query = checked(compare(part, rows, Known(0, 110, ((0, 50), (50, 110))), NOTHING))
    assert [(each.start, each.end, each.cause) for each in query.accused] == [(50, 100, AbsenceCause.SKIPPED)]
    with_markers = folded([offset for offset in range(110) if offset % 5])
    markers = checked(compare(part, with_markers, Known(0, 110, ((0, 50), (50, 110))), NOTHING))
    assert markers.counts[Presence.ABSENT, AbsenceCause.SKIPPED] == 0
    assert markers.uncertain == 20


def test_a_log_that_begins_far_away(tmp_path: Path) -> None:
    """What was never looked at costs nothing, and neither do the days of it."""
    start = 10**15
    part = log_of(written(tmp_path / "t-0", made([("plain", 0, 10)], start=start)))
    result = checked(compare(part, folded(range(start, start + 10)), Known(), NOTHING))
    assert result.days == {
        (-1, Presence.ABSENT, AbsenceCause.BEFORE_LOG_START): start,
        (0 if part.times[0][1] < 86_400_000 else part.times[0][1] // 86_400_000, Presence.ONCE, None): 10,
    }


def test_more_ranges_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts stay exact, and what accuses is kept."""
    monkeypatch.setattr("tidelog.pipeline.reconcile.compare.RANGES_MAX", 3)
    part = log_of(written(tmp_path / "t-0", made([("thin", 0, 6), ("thin", 0, 6), ("plain", 0, 9)])))
    result = compare(part, folded([0, 2, 4, 6, 8, 10, 12, 13, 15, 15, 20]), Known(), NOTHING)
    assert result.cut
    assert len(result.others) == 3
    assert result.counts[Presence.ABSENT, AbsenceCause.COMPACTED] == 6
    assert [(each.start, each.end) for each in result.accused] == [(14, 15), (15, 16), (16, 20)]


def test_what_was_truncated(tmp_path: Path) -> None:
    """A replica with an older epoch that reaches further shows offsets that an election dropped."""
    written(tmp_path / "1" / "t-0", made([("plain", 0, 9)]))
    newer = written(tmp_path / "2" / "t-0", made([("plain", 0, 5)])) / f"{0:020}.log"
    data = bytearray(newer.read_bytes())
    data[12:16] = (7).to_bytes(4, "big")  # the leader epoch lies outside the CRC
    newer.write_bytes(data)
    part = log_of(tmp_path)
    assert (part.end, part.truncated_end) == (5, 9)
    result = checked(compare(part, folded(range(5)), Known(), NOTHING))
    assert result.counts == {
        (Presence.ONCE, None): 5,
        (Presence.ABSENT, AbsenceCause.TRUNCATED): 4,
    }


def test_damage_is_not_a_hole(tmp_path: Path) -> None:
    """A batch whose CRC is wrong cannot be judged, and is not called compacted."""
    log = made([("plain", 0, 4), ("plain", 0, 4), ("plain", 0, 4)])
    file = written(tmp_path / "t-0", log) / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    part = log_of(tmp_path)
    result = checked(compare(part, folded([*range(4), *range(8, 12)]), Known(), NOTHING))
    assert result.counts[Presence.ABSENT, AbsenceCause.UNREADABLE] == 4
    assert any("CRC" in words for words in part.problems)


@given(st.sets(st.integers(0, 4 * STRETCH)), st.integers(0, 4 * STRETCH), st.integers(0, STRETCH))
def test_sets_of_offsets(members: set[int], start: int, size: int) -> None:
    """Packed, united and cut, a set stays what it is, dense or sparse."""
    gathering = Gathering()
    gathering.add(np.array(sorted(members), np.int64))
    gathering.add_range(start, start + size)
    found = gathering.finished()
    expected = members | set(range(start, start + size))
    assert len(found) == len(expected)
    for stretch in range(6):
        positions = np.flatnonzero(found.members(stretch)) + stretch * STRETCH
        assert set(positions.tolist()) == {each for each in expected if each // STRETCH == stretch}
    assert all(len(packed) <= STRETCH // 8 for packed in found.stretches.values())
    assert list(bits.runs(np.array([1, 1, 2, 1]))) == [(0, 2, 1), (2, 3, 2), (3, 4, 1)]


def test_a_folder_without_the_topic(tmp_path: Path) -> None:
    written(tmp_path / "t-0", made([("plain", 0, 1)]))
    with pytest.raises(PipelineError, match="holds no partition of the topic other"):
        read_logs(Local(1), [str(tmp_path)], "other", {})


def test_rows_of_a_topic_that_was_there_before(tmp_path: Path) -> None:
    """The earlier topic had 50 records, this one has 30, and the query passed over the first 5: rows of
    before are no rows of these offsets, neither twice nor with other bytes."""
    part = log_of(written(tmp_path / "t-0", made([("plain", 0, 30)])))
    before = [(offset, b"before %d" % offset) for offset in range(50)]
    now = [(offset, value_of(offset)) for offset in range(5, 30)]
    again = [(7, value_of(7))]
    rows = [*before, *now, *again]
    topic = _side([(offset, crc32(value_of(offset))) for offset in range(30)], pa.int64())
    batches = [*_packed(True, iter([topic])), *_packed(False, iter([_side(rows, pa.binary())]))]
    (found,) = (row for batch in _compared({0}, iter(batches)) for row in batch.to_pylist())
    values = Compared(*(OffsetSet({0: found[name]}) for name in ("different", "same", "same_twice")))
    own = values.of_this_topic(folded([offset for offset, _ in rows]), part)
    known = Known(0, 30, ((5, 30),), 50, recreated=True, jumped=5)
    result = checked(compare(part, own, known, NOTHING))
    assert +result.counts == {
        (Presence.ABSENT, AbsenceCause.SKIPPED): 5,
        (Presence.ONCE, None): 24,
        (Presence.TWICE, None): 1,
        (Presence.EARLIER_TOPIC, None): 20,
    }
    (usual,) = (row for batch in _compared(set(), iter(batches)) for row in batch.to_pylist())
    assert bits.unpack(usual["different"]).sum() == 30
    assert not bits.unpack(usual["same"]).any()


def _side(rows: Sequence[tuple[int, object]], kind: object) -> pa.RecordBatch:
    """The columns of either side: partition, offset, and the CRC or the value."""
    offsets, values = zip(*rows, strict=True)
    columns = [pa.array([0] * len(rows), pa.int32()), pa.array(offsets, pa.int64()), pa.array(values, kind)]
    return pa.RecordBatch.from_arrays(columns, ["partition", "offset", "value"])
