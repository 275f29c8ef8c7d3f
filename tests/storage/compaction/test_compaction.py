"""Compaction: of every key the last record stays, and nothing that stays changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from crc32c import crc32c
from tests.storage.batches import batch, copy_of, read_all
from tests.storage.compaction.compacting import NOW, compact, compacted, fill, keyed, opened, pairs, records
from tests.storage.folders import TP, after_a_crash, folder, storage

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.storage.background import finished
from tidelog.storage.checkpoints import CLEANED, NEVER_CLEANED, read_offsets
from tidelog.storage.file_storage import FileStorage
from tidelog.wire.batch import RecordBatch
from tidelog.wire.compression import Compression
from tidelog.wire.records import build_batch, read_records


@pytest.fixture
def place() -> Iterator[Path]:
    with folder() as path:
        yield path


def names(path: Path) -> set[str]:
    return {one.suffix for one in (path / "topic-0").iterdir()}


def test_the_last_record_of_every_key_stays(place: Path) -> None:
    """At its offset; the active segment is left alone, and what was in memory is forgotten."""
    with storage(place, defaults=compacted()) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2")])
        log.append_as_leader(keyed(("a", "3")), LeaderEpoch(0))
        log.append_as_leader(keyed(("a", "4")), LeaderEpoch(0))
        before = log.size_bytes
        assert compact(one) == 1
        assert pairs(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3"), (6, "a", "4")]
        assert (log.start_offset, log.end_offset) == (0, 7)
        assert log.size_bytes < before
        assert names(place) == {".log", ".index", ".timeindex", ".snapshot"}
        assert compact(one) == 0
    assert read_offsets(place / CLEANED) == {TP: 5}
    with storage(place, defaults=compacted()) as again:
        assert not again.recovered
        log = again.open(TP)
        assert [offset for offset, *_ in pairs(log)] == [2, 3, 4, 5, 6]
        assert log.cleaned_to == 5


def test_other_policies_leave_logs_alone(place: Path) -> None:
    """Only compact compacts; a log that never was is known to have no gaps."""
    with storage(place, defaults=compacted(cleanup_policy="delete")) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", "2")])
        assert compact(one) == 0
        assert log.cleaned_to == NEVER_CLEANED
    assert not (place / CLEANED).exists()


def test_nothing_above_the_high_watermark_counts(place: Path) -> None:
    """Neither is it compacted nor does it make older records obsolete: it may yet be truncated."""
    with storage(place, defaults=compacted()) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", "2")])
        fill(log, [("a", "3"), ("a", "4")])
        assert compact(one, high_watermark=3) == 1
        assert [offset for offset, *_ in pairs(log)] == [1, 2, 3]
        assert compact(one, high_watermark=4) == 1
        assert [offset for offset, *_ in pairs(log)] == [3]


def test_the_share_that_is_dirty_decides(place: Path) -> None:
    """A log is rewritten when enough of it is new, or when something new has waited for too long."""
    settings = compacted(min_cleanable_dirty_ratio="0.5", max_compaction_lag_ms=5_000)
    with storage(place, defaults=settings) as one:
        log = opened(one)
        fill(log, [(f"key {n}", "x" * 40) for n in range(12)])
        assert compact(one, now_ms=2_000) == 1
        fill(log, [("key 0", "y")])
        assert compact(one, now_ms=6_000) == 0
        assert compact(one, now_ms=6_001) == 1
        assert pairs(log)[0][1] == "key 1"


def test_young_records_are_left_alone(place: Path) -> None:
    """min.compaction.lag.ms, counted from the newest record of a segment."""
    with storage(place, defaults=compacted(min_compaction_lag_ms=500)) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", "2")])
        fill(log, [("a", "3")], timestamp=2_000)
        assert compact(one, now_ms=1_499) == 0
        assert compact(one, now_ms=1_500) == 1
        assert [offset for offset, *_ in pairs(log)] == [1, 2]


def test_the_dirtiest_comes_first(place: Path) -> None:
    """One log at a time."""
    with storage(place, defaults=compacted()) as one:
        log, other = opened(one), one.open(TopicPartition("other", 3))
        other.restore_producers(ProducerStates())
        fill(log, [(f"key {n}", "x" * 40) for n in range(12)])
        compact(one)
        fill(log, [("a", "1")])
        fill(other, [("a", "1"), ("a", "2")])
        watermarks = {log.tp: log.end_offset, other.tp: other.end_offset}
        first = one.next_compaction(NOW, watermarks)
        assert first is not None
        for job in first:
            job()
        assert len(pairs(other)) == 1
        assert len(pairs(log)) == 13


# ---------------------------------------------------------------- tombstones


def test_a_tombstone_stays_for_a_while(place: Path) -> None:
    """delete.retention.ms from the compaction that met it, however often its log is compacted and merged."""
    with storage(place, defaults=compacted(delete_retention_ms=100)) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("b", "1"), ("a", None)])
        assert compact(one, now_ms=NOW) == 1
        assert records(log) == [(1, 1_000, "b", "1"), (2, 1_000, "a", None)]
        fill(log, [("c", "1")])
        assert compact(one, now_ms=NOW + 99) == 1
        assert len(log.segments) == 2
        assert [key for _, key, _ in pairs(log)] == ["b", "a", "c"]
        fill(log, [("c", "2")])
        assert compact(one, now_ms=NOW + 100) == 1
        assert pairs(log) == [(1, "b", "1"), (4, "c", "2")]


def test_a_key_that_comes_back_is_there(place: Path) -> None:
    """A tombstone deletes what came before it."""
    with storage(place, defaults=compacted(delete_retention_ms=0)) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", None), ("a", "2"), ("b", None)])
        compact(one)
        fill(log, [("c", "1")])
        compact(one, now_ms=NOW + 1)
        assert pairs(log) == [(2, "a", "2"), (4, "c", "1")]


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_lose_records_and_keep_the_rest(place: Path, codec: Compression) -> None:
    """Codec, offsets, epoch, producer, sequence, timestamps and headers."""
    with storage(place, defaults=compacted()) as one:
        log = opened(one)
        sent = keyed(
            ("a", "1"), ("b", "1"), ("c", None), timestamp=5_000, producer=7, sequence=40, compression=codec
        )
        log.append_as_leader(sent, LeaderEpoch(3))
        log.append_as_leader(keyed(("b", "2"), timestamp=6_000, compression=codec), LeaderEpoch(3))
        log.roll()
        compact(one)
        found = read_all(log)
        first = found[0]
        assert [(each.offset, each.key, each.headers) for each in read_records(first)] == [
            (0, b"a", [("n", b"0")]),
            (2, b"c", [("n", b"2")]),
        ]
        assert [each.timestamp for each in read_records(first)] == [5_000, 5_002]
        assert (first.base_offset, first.next_offset, first.leader_epoch) == (0, 3, 3)
        assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 0, 40)
        assert first.compression is codec
        assert first.max_timestamp == 5_002
        assert all(each.crc_ok() for each in found)


def test_sequences_go_on_after_compaction(place: Path) -> None:
    """The last batch of a producer stays, if need be without records, until the producer sends another."""
    with storage(place, defaults=compacted()) as one:
        log, states = one.open(TP), ProducerStates()
        log.restore_producers(states)
        for sequence, (producer, key) in enumerate([(5, "a"), (5, "a"), (6, "a"), (-1, "b"), (-1, "a")]):
            number = sequence if producer >= 0 else -1
            states.append(
                log.append_as_leader(keyed((key, "x"), producer=producer, sequence=number), LeaderEpoch(0))
            )
        log.roll()
        compact(one)
        assert [found.base_offset for found in read_all(log)] == [1, 2, 3, 4]
        assert [found.record_count for found in read_all(log)] == [0, 0, 1, 1]
        for snapshot in (place / "topic-0").glob("*.snapshot"):
            snapshot.unlink()
        again = ProducerStates()
        log.restore_producers(again)
        assert {entry.producer_id: entry.last_sequence for entry in again.entries()} == {5: 1, 6: 2}


def test_what_is_not_understood_stays(place: Path) -> None:
    """Control records, the records of transactions unless others followed, and what cannot be read."""
    with storage(place, defaults=compacted(segment_bytes=4_000)) as one:
        log = opened(one)
        broken = bytearray(build_batch([next(iter(read_records(keyed(("a", "x")))))], base_offset=0))
        broken[61] = 0x7F  # a length that reaches beyond the batch
        broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
        log.append_as_leader(keyed(("a", "1")), LeaderEpoch(0))
        log.append_as_leader(keyed(("a", "2"), transactional=True, producer=1, sequence=0), LeaderEpoch(0))
        log.append_leader_change(LeaderEpoch(0))
        log.append_as_leader(RecordBatch.parse(broken), LeaderEpoch(0))
        log.append_as_leader(keyed(("b", "1"), transactional=True, producer=1, sequence=1), LeaderEpoch(0))
        log.append_as_leader(keyed(("b", "2")), LeaderEpoch(0))
        log.append_as_leader(keyed((None, "nobody's")), LeaderEpoch(0))
        log.append_as_leader(keyed(("c", "3")), LeaderEpoch(0))
        log.roll()
        compact(one)
        assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3, 5, 7]


# ---------------------------------------------------------------- gaps


def test_reads_pass_over_gaps(place: Path) -> None:
    """From any offset, by time, backwards from the largest timestamp, and from memory as from files."""
    for tail_bytes in (0, 1 << 20):
        path = place / str(tail_bytes)
        with storage(path, defaults=compacted(segment_bytes=4_000), tail_bytes=tail_bytes) as one:
            log = opened(one)
            for n in range(40):
                log.append_as_leader(
                    keyed((f"k{n % 20 if n % 7 else n}", "v"), timestamp=1_000 + n), LeaderEpoch(0)
                )
            log.roll()
            compact(one)
            for n in range(40, 45):
                log.append_as_leader(keyed(("k", "v"), timestamp=1_000 + n), LeaderEpoch(0))
            left = [offset for offset, *_ in records(log)]
            assert len(left) < 35
            for start in range(log.end_offset):
                expected = [offset for offset in left if offset >= start]
                assert [offset for offset, *_ in records(log, start=start, max_bytes=1)] == expected
                found = finished(log.offset_for_timestamp(1_000 + start))
                assert found == (1_000 + expected[0], expected[0])
            assert finished(log.offset_of_max_timestamp()) == (1_044, 44)


def test_the_largest_timestamp_may_be_gone(place: Path) -> None:
    """Then it is the largest of what is left."""
    with storage(place, defaults=compacted()) as one:
        log, states = one.open(TP), ProducerStates()
        log.restore_producers(states)
        states.append(
            log.append_as_leader(keyed(("a", "1"), timestamp=9_000, producer=1, sequence=0), LeaderEpoch(0))
        )
        fill(log, [("b", "1"), ("a", "2")])
        compact(one)
        assert finished(log.offset_of_max_timestamp()) == (1_000, 1)


def test_a_follower_takes_what_a_compacted_leader_has(place: Path) -> None:
    """Gaps and all, also after a crash and with another policy; and compacts on its own."""
    with storage(place / "leader", defaults=compacted(segment_bytes=4_000)) as one:
        leader = opened(one)
        fill(leader, [(f"k{n % 5}", "x" * n) for n in range(30)])
        compact(one)
        fill(leader, [("k0", "last")])
        sent = [copy_of(each) for each in read_all(leader)]
        left = records(leader)
    assert sent[0].base_offset == 25
    with storage(place / "follower", defaults=compacted(cleanup_policy="delete")) as two:
        follower = opened(two)
        for each in sent:
            follower.append_as_follower(each)
        assert records(follower) == left
        assert records(follower, start=3) == left
        follower.truncate_to(27)
        assert (follower.end_offset, len(records(follower))) == (27, 2)
        follower.truncate_to(20)
        assert (follower.start_offset, follower.end_offset) == (0, 0)
        for each in sent:
            follower.append_as_follower(copy_of(each))
        follower.begin_sync()()
        two.write_checkpoints()
        crashed = after_a_crash(place / "follower", place / "crashed")
    with storage(crashed, defaults=compacted()) as three:
        assert not three.recovered
        follower = opened(three)
        assert records(follower) == left
        follower.roll()
        assert compact(three) == 1
        assert [offset for offset, *_ in records(follower)] == [26, 27, 28, 29, 30]


def test_an_epoch_may_begin_in_a_gap(place: Path) -> None:
    """A follower learns of it from the batch that follows, and so does its next start, synced or not."""
    with storage(place / "leader", defaults=compacted(segment_bytes=4_000)) as one:
        leader = opened(one)
        for epoch, key in enumerate("abab"):
            leader.append_as_leader(keyed((key, "x"), ("c", "x")), LeaderEpoch(epoch))
            leader.epochs.assign(LeaderEpoch(epoch), 2 * epoch)
        leader.roll()
        compact(one)
        sent = [copy_of(each) for each in read_all(leader)]
        assert [(each.base_offset, each.leader_epoch) for each in sent] == [(4, 2), (6, 3)]
        assert [tuple(entry) for entry in leader.epochs.entries] == [(0, 0), (1, 2), (2, 4), (3, 6)]
    for synced in (False, True):
        path = place / f"follower-{synced}"
        with storage(path, defaults=compacted()) as two:
            follower = opened(two)
            for each in sent:
                follower.epochs.assign(LeaderEpoch(each.leader_epoch), each.base_offset)
                follower.epochs_changed()
                follower.append_as_follower(copy_of(each))
            if synced:
                follower.begin_sync()()
                two.write_checkpoints()
            left = records(follower)
            crashed = after_a_crash(path, place / f"crashed-{synced}")
        with storage(crashed, defaults=compacted()) as three:
            follower = opened(three)
            assert records(follower) == left
            assert [tuple(entry) for entry in follower.epochs.entries] == [(2, 4), (3, 6)]


def test_truncation_inside_a_gap_ends_the_log_before_it(place: Path) -> None:
    """Where the last batch ends, so that files and memory agree about it."""
    for target in range(1, 12):
        path = place / str(target)
        with storage(path, defaults=compacted(segment_bytes=4_000, index_interval_bytes=1)) as one:
            log = opened(one)
            fill(log, [(key, "v") for key in "abccccddddd"])
            compact(one)
            ends = [each.next_offset for each in read_all(log)]
            assert ends == [1, 2, 6, 11]
            log.truncate_to(target)
            assert log.end_offset == max(end for end in [0, *ends] if end <= target)
            end = log.end_offset
            log.append_as_leader(keyed(("z", "v")), LeaderEpoch(1))
        with storage(path, defaults=compacted()) as again:
            assert not again.recovered
            assert again.open(TP).end_offset == end + 1
            assert pairs(again.open(TP))[-1] == (end, "z", "v")


# ---------------------------------------------------------------- bounds


def test_memory_is_bounded(place: Path) -> None:
    """More keys than the map can hold take several compactions; the outcome is the same."""
    with storage(place, defaults=compacted(), dedupe_bytes=200 * 3) as one:
        log = opened(one)
        fill(log, [(f"k{n % 10}" * 20, str(n)) for n in range(40)])
        assert compact(one) > 3
        assert [value for _, _, value in pairs(log)] == [str(n) for n in range(30, 40)]
        assert log.cleaned_to == 40


def test_small_segments_are_merged(place: Path) -> None:
    """As long as they fit one; none is left empty."""
    with storage(place, defaults=compacted(segment_bytes=1_000)) as one:
        log = opened(one)
        for n in range(12):
            fill(log, [("a", str(n)), (f"k{n}", "x")])
        compact(one)
        assert len(log.segments) < 6
        assert all(segment.size for segment in list(log.segments)[:-1])
        assert len(pairs(log)) == 13


def test_a_damaged_log_is_left_alone(place: Path) -> None:
    """It is reported, not compacted, not tried again, and other logs are."""
    with storage(place, defaults=compacted(), tail_bytes=0) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", "2")])
        segment = log.segments.first
        content = bytearray(segment.path.read_bytes())
        content[70] ^= 1
        segment.path.write_bytes(content)
        assert compact(one) == 1
        assert "cannot compact topic-0" in one.trouble
        assert "the CRC of the batch 0 does not match" in one.trouble
        assert not log.failure
        assert not list((place / "topic-0").glob("*.cleaned"))
        log.append_as_leader(batch("goes on"), LeaderEpoch(0))


def test_a_slow_disk_is_spared(place: Path) -> None:
    """log.cleaner.io.max.bytes.per.second: the thread sleeps, and the end does not wait for it."""
    one = FileStorage(place, broker_id=1, defaults=compacted(), cleaner_bytes_per_second=1)
    fill(opened(one), [("a", "1"), ("a", "2")])
    steps = one.next_compaction(NOW, {TP: 2})
    assert steps is not None
    thread = Thread(target=next(steps))
    thread.start()
    one.close()
    thread.join()
    assert list(steps) == []
    assert not list((place / "topic-0").glob("*.cleaned"))


# ---------------------------------------------------------------- meanwhile


@pytest.mark.parametrize("disturbance", ["truncate", "delete", "advance", "append", "roll", "none"])
def test_a_log_may_change_while_it_is_compacted(place: Path, disturbance: str) -> None:
    """Between any two steps: truncation and deletion end the compaction, the rest does not matter to it."""
    count = 0
    for moment in range(40):
        path = place / f"{moment}"
        with storage(path, defaults=compacted(segment_bytes=300)) as one:
            log = opened(one)
            for n in range(4):
                fill(log, [("a", f"{n}"), (f"k{n}", "x"), ("b", f"{n}")])
            log.append_as_leader(keyed(("a", "active")), LeaderEpoch(0))
            steps = one.next_compaction(NOW, {TP: 12})
            assert steps is not None
            for count, job in enumerate(steps):
                job()
                if count == moment:
                    _disturb(one, disturbance)
            if disturbance == "delete" and count >= moment:
                assert one.partitions() == ()
                continue
            last = {key: value for _, key, value in pairs(log)}
            assert last["a"] == ("3" if disturbance == "truncate" and count >= moment else "active")
            assert last["b"] == "3"
            compact(one)
            left = pairs(log)
        with storage(path, defaults=compacted()) as again:
            assert not again.recovered
            assert pairs(again.open(TP)) == left
        if count < moment:
            return
    raise AssertionError("a compaction of a few segments has no end")


def _disturb(one: FileStorage, disturbance: str) -> None:
    if disturbance == "delete":
        one.delete(TP)
        return
    log = one.open(TP)
    if disturbance == "truncate":
        log.truncate_to(12)
        log.restore_producers(ProducerStates())
    elif disturbance == "advance":
        log.advance_start(7)
    elif disturbance == "append":
        log.append_as_leader(keyed(("a", "active")), LeaderEpoch(0))
    elif disturbance == "roll":
        log.roll()


def test_a_segment_may_lose_all_its_records(place: Path) -> None:
    """Its last header stays, has no place in the time index, and is found in order by the next start."""
    with storage(place, defaults=compacted(segment_bytes=100)) as one:
        log = opened(one)
        fill(log, [("a", "1"), ("a", "2")])
        assert compact(one) == 1
        first = log.segments.first
        assert [each.record_count for each in read_all(log)] == [0, 1]
        assert (first.size, first.max_timestamp, len(first.time_index)) == (61, -1, 0)
        assert finished(log.offset_of_max_timestamp()) == (1_000, 1)
    with storage(place, defaults=compacted()) as again:
        assert not again.recovered
        assert finished(again.open(TP).offset_for_timestamp(0)) == (1_000, 1)
