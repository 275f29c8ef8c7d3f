"""Segment files as Arrow: the same records as the plain reader finds, whatever is in the file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.segment_specimens import (
    COUNT_START,
    NAME,
    altered,
    batches,
    chained,
    expected,
    rows,
    written,
)

from tidelog.pipeline.segments import scan
from tidelog.pipeline.segments.columns import NAMES
from tidelog.pipeline.segments.reader import read_segment
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, leader_change_batch


def plain(*values: str, codec: Compression = Compression.NONE) -> bytes:
    return build_batch(
        [Record(timestamp=1_000 + n, key=b"k", value=v.encode()) for n, v in enumerate(values)],
        compression=codec,
    )


@settings(max_examples=40)
@given(st.lists(batches(), min_size=1, max_size=4), st.sampled_from((1, 3, 50, 10_000)))
def test_the_records_are_those_of_the_plain_reader(parts: list[bytes], rows_max: int) -> None:
    """All codecs, headers, nulls, control batches, both clocks, in Arrow batches of any size."""
    data = chained(parts)
    with tempfile.TemporaryDirectory() as folder:
        segment = written(Path(folder), data)
        assert rows(segment, rows_max=rows_max) == expected(data, segment)


changes = st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), min_size=1, max_size=3)


@settings(max_examples=80)
@given(batches(), changes)
def test_wrong_records_under_a_right_crc(batch: bytes, places: list[tuple[int, int]]) -> None:
    """Up to the first that cannot be, the records are those of the plain reader; the batch behind is read."""
    data = chained([altered(batch, places), plain("behind")])
    with tempfile.TemporaryDirectory() as folder:
        segment = written(Path(folder), data)
        found = rows(segment)
        assert [row for row in found if row["problem"] is None] == expected(data, segment)
        assert all(row["position"] == 0 for row in found if row["problem"])


def test_only_the_wanted_columns_in_the_wanted_order(tmp_path: Path) -> None:
    """A request for two columns gets two columns, also for what cannot be read."""
    segment = written(tmp_path, chained([plain("a"), plain("b")]) + b"\0" * 100)
    assert [list(row) for row in rows(segment, ["value", "offset"])] == [["value", "offset"]] * 3
    assert rows(segment, ["problem", "offset"])[2]["offset"] is None


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert rows(written(tmp_path, b"")) == []


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """It is the one thing that no row can show."""
    with pytest.raises(FileNotFoundError):
        list(read_segment(SegmentFile.at(tmp_path / NAME)))


def test_the_record_that_opens_an_epoch(tmp_path: Path) -> None:
    """Leaders of the majority generation write control records; they are records of their own kind."""
    data = chained([plain("a"), leader_change_batch(4, 1, [1, 2, 3], 1_000), plain("b")])
    assert [(row["offset"], row["control"]) for row in rows(written(tmp_path, data))] == [
        (0, False),
        (1, True),
        (2, False),
    ]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_no_byte_can_make_the_reader_fail(tmp_path: Path, codec: Compression) -> None:
    """Each byte of a file changed, one at a time: there is a problem, or all records are still told of; and
    what is told under its own offset and value is what was written, unless that byte has no CRC over it."""
    data = chained([plain("a", "b", codec=codec), plain("c", codec=codec), plain("d", "e", codec=codec)])
    sound = {(row["offset"], row["value"]) for row in rows(written(tmp_path, data))}
    assert len(sound) == 5
    for at in range(len(data)):
        for flip in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= flip
            found = rows(written(tmp_path, bytes(damaged)), ["offset", "value", "problem"])
            told = {(row["offset"], row["value"]) for row in found if row["problem"] is None}
            problems = [row for row in found if row["problem"]]
            assert all(row["offset"] is None and row["value"] is None for row in problems)
            assert {value for _, value in told} <= {value for _, value in sound}
            assert problems or len(told) == 5


def test_a_torn_end_costs_only_the_torn_batch(tmp_path: Path) -> None:
    """Cut at any byte, the batches before the cut are read and the rest is one problem."""
    first, second = chained([plain("a", "b")]), plain("c")
    data = chained([first, second])
    for cut in range(len(first) + 1, len(data)):
        *told, problem = rows(written(tmp_path, data[:cut]))
        assert [row["value"] for row in told] == [b"a", b"b"]
        assert problem["position"] == len(first)
        assert "the file ends inside a" in problem["problem"]


def test_a_bad_crc_is_told_and_stepped_over(tmp_path: Path) -> None:
    """The batches on both sides are read; of the bad one there is only where it is and what it claims."""
    data = bytearray(chained([plain("a"), plain("b"), plain("c")]))
    data[len(plain("a")) + 65] ^= 0xFF
    before, problem, after = rows(written(tmp_path, bytes(data)))
    assert (before["value"], after["value"]) == (b"a", b"c")
    assert problem["problem"] == "the CRC of the batch does not match"
    assert (problem["crc_ok"], problem["batch_base_offset"], problem["offset"]) == (False, 1, None)


def test_an_offset_that_jumped_is_found_by_its_neighbours(tmp_path: Path) -> None:
    """The base offset is outside the CRC: of three batches the one in the middle is the liar."""
    data = bytearray(chained([plain("a"), plain("b"), plain("c")]))
    data[len(plain("a")) + 3] ^= 0x40
    told = rows(written(tmp_path, bytes(data)), ["value", "problem"])
    assert [row["value"] for row in told] == [b"a", None, b"c"]
    assert "do not fit those around it" in told[1]["problem"]


def test_records_that_contradict_their_batch(tmp_path: Path) -> None:
    """Those before the first wrong one are kept, then come the words."""
    batch = plain("a", "b", "c")
    *told, problem = rows(written(tmp_path, altered(batch, [(len(batch) - COUNT_START - 3, 0x7E)])))
    assert [row["value"] for row in told] == [b"a", b"b"]
    assert "reaches beyond" in problem["problem"]
    assert problem["crc_ok"]


def test_what_inflates_beyond_the_limit_is_a_problem(tmp_path: Path) -> None:
    """A few bytes may stand for gigabytes; the batch after them is read."""
    bomb = plain("x" * 1_000_000, codec=Compression.ZSTD)
    data = chained([bomb, plain("b")])
    problem, after = rows(written(tmp_path, data), ["value", "problem"], inflated_max=10_000)
    assert "inflates to more than 10000 bytes" in problem["problem"]
    assert after["value"] == b"b"


def test_a_batch_of_many_records_comes_in_parts(tmp_path: Path) -> None:
    """No Arrow batch has more rows than asked for, though the records are compressed as one batch."""
    data = plain(*(str(n) for n in range(1_000)), codec=Compression.LZ4)
    parts = list(read_segment(written(tmp_path, data), ["value"], rows_max=300))
    assert [part.num_rows for part in parts] == [300, 300, 300, 100]
    assert [v for part in parts for v in part["value"].to_pylist()] == [b"%d" % n for n in range(1_000)]


def test_messages_of_old_kafka_are_named(tmp_path: Path) -> None:
    """Format 0 and 1 are not decoded; they are counted in words, and newer batches behind them are read."""
    old = b"".join(
        offset.to_bytes(8, "big") + (14).to_bytes(4, "big") + bytes(4) + b"\x01\x00" + b"\xff" * 8
        for offset in range(3)
    )
    problem, record = rows(written(tmp_path, old + chained([plain("a")], first=3)))
    assert problem["problem"] == "3 messages of format 1, as Kafka wrote before 0.11: not read"
    assert (record["offset"], record["value"]) == (3, b"a")


def test_chunks_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is read at once, less than a batch or more than the file, the rows are the same."""
    data = chained([plain("a" * 10 * n, "b") for n in range(12)])
    segment = written(tmp_path, data)
    whole = rows(segment)
    original = scan.scan
    for size in (1, 17, 61, 100, 333, 2_000):
        monkeypatch.setattr(
            "tidelog.pipeline.segments.reader.scan",
            lambda fd, start, end, size=size: original(fd, start, end, chunk_bytes=size),
        )
        assert rows(segment) == whole


def test_a_range_of_offsets_is_read_by_headers(tmp_path: Path) -> None:
    """Only batches that may hold an offset of the range are decoded; they are given whole."""
    segment = written(tmp_path, chained([plain("a", "b"), plain("c", "d"), plain("e", "f")]))
    assert [row["offset"] for row in rows(segment, ["offset"], offsets=range(3, 4))] == [2, 3]
    assert rows(segment, offsets=range(6, 9)) == []


def test_every_column_is_described() -> None:
    """Names are unique, and the first question of any audit, where is it, can be asked."""
    assert len(set(NAMES)) == len(NAMES)
    assert {"broker", "topic", "partition", "offset", "file", "position", "problem"} <= set(NAMES)
