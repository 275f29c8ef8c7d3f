"""A log in files: what is stored, what is read back, when segments roll, what truncation leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.batches import append, batch, bytes_of, copy_of, read_all, values
from tests.storage.folders import TP, folder, log, small, storage

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import InvariantViolation, LeaderEpoch
from tidelog.storage.background import finished
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.batch import RecordBatch
from tidelog.wire.records import read_records

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=25)


def numbered(sizes: list[int], timestamps: list[int] | None = None) -> list[RecordBatch]:
    """Batches of so many records each, every value its offset."""
    batches, offset = [], 0
    for n, size in enumerate(sizes):
        when = timestamps[n] if timestamps else 1_000 + n
        batches.append(batch(*(str(offset + m) for m in range(size)), timestamp=when))
        offset += size
    return batches


def names(one: FileLog, suffix: str) -> list[int]:
    return sorted(int(path.stem) for path in one.folder.glob("*" + suffix))


# ---------------------------------------------------------------- appending


def test_a_leader_stamps_and_stores_the_producers_bytes(tmp_path: Path) -> None:
    """Offset and epoch are stamped in place; everything under the CRC stays as it came."""
    with log(tmp_path) as one:
        sent = batch("a", "b")
        under_crc = bytes(sent.data[16:])
        append(one, batch("x"))
        stored = one.append_as_leader(sent, LeaderEpoch(7))
        assert (stored.base_offset, stored.next_offset, stored.leader_epoch) == (1, 3, 7)
        content = one.segments.active.path.read_bytes()
        assert content.endswith(under_crc)
        assert RecordBatch.parse(content, len(content) - stored.size).leader_epoch == 7
        assert one.end_offset == 3


def test_a_follower_stores_the_same_bytes(tmp_path: Path) -> None:
    """What the leader has, byte for byte."""
    with log(tmp_path / "1") as leader, log(tmp_path / "2") as follower:
        append(leader, *numbered([2, 1, 3]), epoch=4)
        for one in read_all(leader):
            follower.append_as_follower(copy_of(one))
        paths = [one.segments.active.path.read_bytes() for one in (leader, follower)]
        assert paths[0] == paths[1]


def test_a_follower_cannot_go_back(tmp_path: Path) -> None:
    """A batch that begins before the log's end is a broken rule of replication. One that begins later is not:
    the leader has compacted what would come before."""
    with log(tmp_path) as one:
        after_a_gap, wrong = batch("a"), batch("b")
        after_a_gap.stamp(5, 0)
        one.append_as_follower(after_a_gap)
        wrong.stamp(3, 0)
        with pytest.raises(InvariantViolation, match="offset 3 was appended to topic-0, which ends at 6"):
            one.append_as_follower(wrong)


def test_a_majority_leader_opens_its_epoch_with_a_control_record(tmp_path: Path) -> None:
    """It names the leader, and is a record like any other to the log."""
    with storage(tmp_path, clock=lambda: 123) as opened:
        one = opened.open(TP)
        append(one, batch("a"))
        stored = one.append_leader_change(LeaderEpoch(3))
        assert (stored.base_offset, stored.leader_epoch, stored.is_control) == (1, 3, True)
        assert [record.timestamp for record in read_records(stored)] == [123]
        assert one.end_offset == 2


# ---------------------------------------------------------------- rolling


def test_segments_roll_at_their_size(tmp_path: Path) -> None:
    """Before the batch that would make it larger; a batch that is larger alone is taken all the same."""
    size = batch("a").size
    with log(tmp_path, defaults=small(**{"segment.bytes": 2 * size})) as one:
        append(one, *(batch("a") for _ in range(5)), batch("b" * 500), batch("a"))
        assert names(one, ".log") == [0, 2, 4, 5, 6]
        assert names(one, ".index") == names(one, ".timeindex") == [0, 2, 4, 5]


def test_segments_roll_by_the_time_of_their_records(tmp_path: Path) -> None:
    """Counted from the first record, by the records' own clock; also after a restart."""
    settings = {"segment.ms": "100"}
    with log(tmp_path, defaults=settings) as one:
        append(one, batch("a", timestamp=1_000), batch("b", timestamp=1_100))
        assert names(one, ".log") == [0]
        append(one, batch("c", timestamp=1_101), batch("d", timestamp=900))
        assert names(one, ".log") == [0, 2]
    with log(tmp_path, defaults=settings) as one:
        append(one, batch("e", timestamp=1_201), batch("f", timestamp=1_202))
        assert names(one, ".log") == [0, 2, 5]


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    """Every entry fits, the last one of the time index included."""
    with log(tmp_path, defaults=small(**{"segment.index.bytes": 48, "segment.bytes": 100_000})) as one:
        append(one, *(batch("x" * 60, timestamp=1_000 + n) for n in range(30)))
        assert len(names(one, ".log")) > 2
        for path in one.folder.glob("*index"):
            assert path.stat().st_size <= 48


def test_segments_roll_before_relative_offsets_overflow(tmp_path: Path) -> None:
    """An index has 31 bits for an offset."""
    with log(tmp_path) as one:
        one.restart_at(10)
        append(one, batch("a"))
        far = batch("b")
        far.next_offset = far.base_offset + 2**31 - 1
        append(one, far)
        assert names(one, ".log") == [10, 11]


# ---------------------------------------------------------------- reading


@QUICK
@given(sizes=SIZES, interval=st.sampled_from([0, 100, 4096]), tail=st.sampled_from([0, 2_000, 1 << 20]))
def test_reads_agree_with_a_full_scan(sizes: list[int], interval: int, tail: int) -> None:
    """Any start, any end, any bound of bytes: whole batches from the one that holds the start, none beyond
    the end, and never nothing where there is something."""
    with (
        folder() as path,
        log(path, defaults=small(**{"index.interval.bytes": interval}), tail_bytes=tail) as one,
    ):
        stored = append(one, *numbered(sizes))
        for start in range(one.end_offset):
            for end in (start, start + 1, start + 3, one.end_offset):
                expected = [b for b in stored if b.next_offset > start and b.next_offset <= end]
                assert bytes_of(read_all(one, start, end)) == bytes_of(expected)
                for max_bytes in (1, 100, 400):
                    found = one.read(start, end, max_bytes)
                    assert bytes_of(found) == bytes_of(expected[: len(found)])
                    assert len(found) <= 1 or sum(b.size for b in found) <= max_bytes
                    assert bool(found) == bool(expected)
        assert one.read(one.end_offset, one.end_offset) == []


def test_what_is_below_the_start_cannot_be_read(tmp_path: Path) -> None:
    """The core checks it; this is the last line."""
    with log(tmp_path, tail_bytes=0) as one:
        append(one, *numbered([2, 2, 2]))
        one.advance_start(3)
        assert values(one.read(3, 6))[0] == (2, "2"), "the batch that holds the start comes whole"
        with pytest.raises(InvariantViolation, match="topic-0 starts at 3, 2 cannot be read"):
            one.read(2, 6)


def test_a_file_that_cannot_be_read_is_a_failure_with_a_name(tmp_path: Path) -> None:
    """Not a traceback of the system's."""
    with log(tmp_path, defaults=small(), tail_bytes=0) as one:
        append(one, *numbered([1] * 12))
        first = one.segments.first
        first.close()
        first.path.rename(first.path.with_suffix(".gone"))
        with pytest.raises(StorageFailure, match=r"^cannot read .*0\.log: No such file or directory$"):
            one.read(0, 12)


@QUICK
@given(
    sizes=SIZES,
    timestamps=st.lists(st.integers(0, 40), min_size=25, max_size=25),
    interval=st.sampled_from([0, 100, 4096]),
    asked=st.integers(0, 45),
    start=st.integers(0, 20),
)
def test_offsets_by_time_agree_with_a_full_scan(
    sizes: list[int], timestamps: list[int], interval: int, asked: int, start: int
) -> None:
    """Timestamps in any order: the first record at or after, and the first with the largest."""
    with folder() as path:
        with log(path, defaults=small(**{"index.interval.bytes": interval})) as one:
            append(one, *numbered(sizes, timestamps))
            one.advance_start(min(start, one.end_offset))
        with log(path, defaults=small(**{"index.interval.bytes": interval})) as one:
            records = [record for b in read_all(one) for record in read_records(b)]
            left = [(r.timestamp, r.offset) for r in records if r.offset >= one.start_offset]
            assert finished(one.offset_for_timestamp(asked)) == next((r for r in left if r[0] >= asked), None)
            newest = max((r[0] for r in left), default=None)
            assert finished(one.offset_of_max_timestamp()) == next((r for r in left if r[0] == newest), None)


# ---------------------------------------------------------------- losing an end


@QUICK
@given(sizes=SIZES, offset=st.integers(0, 60), start=st.integers(0, 10), tail=st.sampled_from([0, 1 << 20]))
def test_truncation_drops_whole_batches(sizes: list[int], offset: int, start: int, tail: int) -> None:
    """Every batch that reaches beyond the offset goes, across segments, and stays gone after a restart."""
    with folder() as path:
        with log(path, defaults=small(), tail_bytes=tail) as one:
            stored = append(one, *numbered(sizes))
            one.advance_start(min(start, one.end_offset))
            left = [b for b in stored if b.next_offset > one.start_offset]
            expected = [b for b in left if b.next_offset <= offset]
            before = one.end_offset
            one.truncate_to(offset)
            end = (
                expected[-1].next_offset
                if expected
                else max(left[0].base_offset, one.start_offset)
                if left
                else before
            )
            assert one.end_offset == (before if offset >= before else end)
            assert bytes_of(read_all(one)) == bytes_of(expected)
            again = append(one, batch("after", timestamp=5_000))
        with log(path, defaults=small(), tail_bytes=tail) as one:
            assert bytes_of(read_all(one)) == bytes_of(expected + again)
            assert finished(one.offset_of_max_timestamp()) == (5_000, again[0].base_offset)


def test_the_recovery_point_goes_down_before_the_log_does(tmp_path: Path) -> None:
    """In the checkpoint on disk, not only in memory: what is appended next is not durable."""
    with log(tmp_path, defaults=small()) as one:
        append(one, *numbered([1] * 12))
        one.begin_sync()()
        assert one.recovery_point == 12
        one.truncate_to(3)
        assert one.recovery_point == 3
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\ntopic 0 3\n"


def test_a_sync_under_way_does_not_vouch_for_what_replaced_its_records(tmp_path: Path) -> None:
    """Truncated and refilled in the meantime: the thread synced other bytes."""
    with log(tmp_path) as one:
        append(one, *numbered([1] * 10))
        sync = one.begin_sync()
        one.truncate_to(4)
        append(one, *numbered([1] * 8))
        sync()
        assert one.recovery_point == 0
        one.begin_sync()()
        assert one.recovery_point == 12


def test_restarting_drops_everything(tmp_path: Path) -> None:
    """Files, tail, snapshots; the log goes on at the given offset, also below its old start."""
    with log(tmp_path, defaults=small()) as one:
        one.restore_producers(ProducerStates())
        append(one, *numbered([1] * 12))
        for offset in (100, 7):
            one.restart_at(offset)
            assert (one.start_offset, one.end_offset) == (offset, offset)
            assert (names(one, ".log"), names(one, ".snapshot")) == ([offset], [])
            assert values(append(one, batch("x"))) == [(offset, "x")]
    with log(tmp_path, defaults=small()) as one:
        assert values(read_all(one)) == [(7, "x")]


def test_advancing_the_start_deletes_whole_segments(tmp_path: Path) -> None:
    """And is remembered where the start lies inside a segment."""
    with log(tmp_path, defaults=small()) as one:
        append(one, *numbered([1] * 12))
        bases = names(one, ".log")
        one.advance_start(bases[2] + 1)
        assert names(one, ".log") == bases[2:]
        with pytest.raises(InvariantViolation):
            one.advance_start(13)
    with log(tmp_path, defaults=small()) as one:
        assert one.start_offset == bases[2] + 1
        one.advance_start(one.end_offset)
        assert read_all(one) == []


# ---------------------------------------------------------------- producers


def test_two_snapshots_are_kept(tmp_path: Path) -> None:
    """One at the last roll and one at the end, or the last two rolls."""
    states = ProducerStates()
    with log(tmp_path, defaults=small()) as one:
        one.restore_producers(states)
        for n in range(20):
            states.append(append(one, batch(str(n), producer=1, sequence=n))[0])
        assert names(one, ".snapshot") == names(one, ".log")[-2:]
        last = names(one, ".log")[-1]
    assert names(one, ".snapshot") == [last, 20]


def test_recent_duplicates_are_known_after_a_restart(tmp_path: Path) -> None:
    """A snapshot has only the last batch of a producer; the end of the log is read for the four before."""
    states = ProducerStates()
    with log(tmp_path) as one:
        one.restore_producers(states)
        for n in range(8):
            states.append(append(one, batch("v", producer=1, sequence=n))[0])
    with log(tmp_path) as one:
        again = ProducerStates()
        one.restore_producers(again)
        assert [again.check(batch("v", producer=1, sequence=n)) for n in (3, 7, 8)] == [
            (0, 3),
            (0, 7),
            (0, -1),
        ]


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    """By the time of their last batch; those without a time stay."""
    states = ProducerStates()
    with log(tmp_path) as one:
        one.restore_producers(states)
        for producer, timestamp in ((1, 1_000), (2, 5_000), (3, -1)):
            states.append(append(one, batch("v", producer=producer, sequence=0, timestamp=timestamp))[0])
        assert one.expire_producers(4_000) == 1
        assert [entry.producer_id for entry in states.entries()] == [2, 3]


# ---------------------------------------------------------------- bounds


def test_open_files_are_bounded(tmp_path: Path) -> None:
    """Old segments are closed when others are read. An open one has three files: the log and two indexes."""
    with storage(tmp_path, defaults=small(), open_segments_max=3, tail_bytes=0) as opened:
        one = opened.open(TP)
        append(one, *numbered([1] * 60))
        for _ in range(2):
            assert len(read_all(one, max_bytes=1)) == 60
        held = [
            path
            for path in Path("/proc/self/fd").iterdir()
            if path.exists() and str(one.folder) in str(path.resolve())
        ]
        assert 2 <= len(held) <= 1 + 3 * 3


def test_an_old_reader_and_a_new_writer_share_a_log(tmp_path: Path) -> None:
    """Reads of sealed segments go on while segments roll and old ones are deleted."""
    with log(tmp_path, defaults=small(), tail_bytes=500) as one:
        position = 0
        for n in range(200):
            append(one, batch(str(n)))
            if n % 3 == 0:
                found = one.read(max(position, one.start_offset), one.end_offset, 200)
                position = found[-1].next_offset
            if n % 50 == 49:
                one.advance_start(min(position, one.end_offset))
        assert one.end_offset == 200
