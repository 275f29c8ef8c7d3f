"""Opening a log after a crash, or rot: torn tails are cut, and wrong bytes are never served."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.batches import append, batch, bytes_of, copy_of, read_all, values
from tests.storage.folders import TP, after_a_crash, folder, log, small, storage

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch
from tidelog.storage.background import finished
from tidelog.storage.errors import CorruptLog, StorageRefused
from tidelog.storage.log.missing_offsets import MissingOffsets, Witness
from tidelog.storage.log_folder import CLEAN_SHUTDOWN
from tidelog.wire.batch import RecordBatch

LARGE = small(**{"segment.bytes": 4_000})
LOG = "topic-0/00000000000000000000.log"


def filled(path: Path, count: int = 12) -> list[bytes]:
    """A log of several segments, closed cleanly; returns its batches."""
    with log(path, defaults=small()) as one:
        one.epochs.assign(LeaderEpoch(0), 0)
        one.epochs_changed()
        append(one, *(batch(f"value {n}", f"and {n}", timestamp=1_000 + 10 * n) for n in range(count)))
        return bytes_of(read_all(one))


def crashed(path: Path) -> None:
    """Make a folder that was closed cleanly look like one that was not."""
    (path / CLEAN_SHUTDOWN).unlink()


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("topic-0/*.log"))


def test_a_write_torn_at_any_byte_is_cut() -> None:
    """Of the last batch, any number of bytes may have reached the disk: without all of them it is gone, and
    everything before it is there."""
    with folder() as path:
        batches = filled(path / "whole", 5)
        last = segments(path / "whole")[-1]
        size = len(batches[-1])
        for cut in range(1, size + 1):
            torn = after_a_crash(path / "whole", path / "torn")
            crashed(torn)
            damaged = torn / "topic-0" / last.name
            damaged.write_bytes(damaged.read_bytes()[:-cut])
            with storage(torn, defaults=small()) as opened:
                one = opened.open(TP)
                assert bytes_of(read_all(one)) == batches[:-1]
                (found,) = opened.recovered
                assert found.truncated_bytes == size - cut
                assert found.missing == (MissingOffsets(8, 10, Witness.RECOVERY_POINT),)
                append(one, batch("goes on"))
            shutil.rmtree(torn)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x02"])
@pytest.mark.parametrize("count", [1, 11, 12, 60, 61, 5_000])
def test_what_follows_the_last_batch_is_cut(tmp_path: Path, filler: bytes, count: int) -> None:
    """The size of a file may be ahead of its data: zeros, or whatever was on the disk before."""
    batches = filled(tmp_path, 4)
    crashed(tmp_path)
    last = segments(tmp_path)[-1]
    last.write_bytes(last.read_bytes() + filler * count)
    with storage(tmp_path, defaults=small()) as opened:
        assert bytes_of(read_all(opened.open(TP))) == batches
        assert [finding.truncated_bytes for finding in opened.recovered] == [count]
        assert str(opened.recovered[0]).startswith(f"topic-0: cut {count} bytes at offset 8: ")
    assert last.stat().st_size % len(batches[0]) == 0


def test_segments_beyond_a_hole_are_dropped(tmp_path: Path) -> None:
    """What follows a hole was never durable: serving it would skip offsets."""
    batches = filled(tmp_path)
    crashed(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    second, third = segments(tmp_path)[1:3]
    second.write_bytes(second.read_bytes()[:-1])
    with storage(tmp_path, defaults=small()) as opened:
        one = opened.open(TP)
        kept = int(third.stem) - 2
        assert one.end_offset == kept
        assert bytes_of(read_all(one)) == batches[: kept // 2]
        finding = opened.recovered[0].finding
        assert f"cut {len(batches[0]) - 1} bytes at offset {kept}" in finding
        assert f"dropped {third.name} of" in finding
        append(one, batch("a", "b"))
    with log(tmp_path, defaults=small()) as again:
        assert again.end_offset == kept + 2


def test_a_missing_segment_ends_the_log(tmp_path: Path) -> None:
    """Offsets without a gap, also from file to file."""
    filled(tmp_path)
    crashed(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    lost = segments(tmp_path)[1]
    lost.unlink()
    with storage(tmp_path, defaults=small()) as opened:
        assert opened.open(TP).end_offset == int(lost.stem)
        assert "must come" in opened.recovered[0].finding


def test_below_the_recovery_point_nothing_is_scanned(tmp_path: Path) -> None:
    """But the end of each segment. It was synced before it was written down, so opening is quick; rot there
    shows when it is read."""
    size = len(filled(tmp_path)[0])
    crashed(tmp_path)
    first = segments(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[size + 60] ^= 1
    first.write_bytes(content)
    with storage(tmp_path, defaults=small()) as opened:
        assert not opened.recovered
        with pytest.raises(CorruptLog, match=r"0+\.log is corrupt at byte \d+: the CRC"):
            read_all(opened.open(TP))


def test_after_a_clean_shutdown_nothing_is_scanned_but_the_end(tmp_path: Path) -> None:
    """Rot in the middle is found by who reads it; the end must be known to append to it."""
    filled(tmp_path)
    last = segments(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    with storage(tmp_path, defaults=small()) as opened:
        assert opened.clean_shutdown
        assert "not as a clean shutdown leaves it" in opened.recovered[0].finding
        assert opened.open(TP).end_offset == 22


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_is_never_served(data: st.DataObject) -> None:
    """Any bit of any file of a log: what is read is what was written, or an error, or (after a crash) cut."""
    with folder() as path:
        batches = filled(path)
        clean = data.draw(st.booleans())
        if not clean:
            crashed(path)
        files = sorted(one for one in (path / "topic-0").iterdir() if one.stat().st_size and one.suffix)
        target = data.draw(st.sampled_from(files))
        content = bytearray(target.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        target.write_bytes(content)
        with log(path, defaults=small(), tail_bytes=0) as one:
            for start in range(0, one.end_offset, 2):
                try:
                    found = bytes_of(one.read(start, one.end_offset, 1))
                except CorruptLog:
                    assert target.suffix == ".log"
                    continue
                assert found == batches[start // 2 : start // 2 + 1]
            for timestamp in range(1_000, 1_120, 10):
                try:
                    at = finished(one.offset_for_timestamp(timestamp))
                except CorruptLog:
                    assert target.suffix == ".log"
                    continue
                offset = (timestamp - 1_000) // 5
                assert at == ((timestamp, offset) if offset < one.end_offset else None)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "empty", "zeros", "random"])
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_are_rebuilt(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    """Indexes can be wrong in any way: the log is found all the same."""
    batches = filled(tmp_path)
    if not clean:
        crashed(tmp_path)
    for path in (tmp_path / "topic-0").glob("*" + suffix):
        content = path.read_bytes()
        path.write_bytes(
            {
                "missing": b"",
                "odd size": content + b"123",
                "empty": b"",
                "zeros": bytes(len(content) + 24),
                "random": bytes(b ^ 0x5A for b in content),
            }[damage]
        )
        if damage == "missing":
            path.unlink()
    with log(tmp_path, defaults=small(), tail_bytes=0) as one:
        assert bytes_of(read_all(one, max_bytes=1)) == batches
        assert finished(one.offset_for_timestamp(1_055)) == (1_060, 12)
        assert finished(one.offset_of_max_timestamp()) == (1_111, 23)
        append(one, *(batch("more", timestamp=2_000) for _ in range(8)))
    with log(tmp_path, defaults=small(), tail_bytes=0) as again:
        assert again.end_offset == 32
        assert finished(again.offset_for_timestamp(1_200)) == (2_000, 24)


def test_an_index_from_before_the_last_appends_hides_nothing(tmp_path: Path) -> None:
    """A clean shutdown left the indexes; then the segment grew and was rolled, its records were synced, and
    the broker died before the new indexes were written. Its newest record still counts, or retention would
    delete the segment too early."""
    with log(tmp_path / "a") as one:
        append(one, batch("old", timestamp=1_000))
    late: list[Callable[[], None]] = []
    with storage(tmp_path / "a", background=late.append) as opened:
        one = opened.open(TP)
        append(one, batch("newer", timestamp=2_000))
        one.roll()
        append(one, batch("newest", timestamp=3_000))
        one.begin_sync()()
        opened._checkpoint_now()
        killed = after_a_crash(tmp_path / "a", tmp_path / "b")
    with log(killed) as one:
        assert one.recovery_point == 3
        assert one.segments.first.max_timestamp == 2_000
        assert finished(one.offset_for_timestamp(1_500)) == (2_000, 1)


def test_epochs_are_learnt_from_the_batches(tmp_path: Path) -> None:
    """A checkpoint that is behind the log, and one that is ahead of it."""
    with log(tmp_path / "a", defaults=LARGE) as one:
        append(one, *(batch(str(n)) for n in range(4)), epoch=2)
        append(one, *(batch(str(n)) for n in range(3)), epoch=5)
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
    (found / "topic-0" / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n3 3\n")
    with log(found, defaults=LARGE) as one:
        assert one.epochs.entries == ((2, 0), (5, 4))
        one.epochs.assign(LeaderEpoch(7), one.end_offset)
        one.epochs_changed()
    with log(found, defaults=LARGE) as one:
        assert one.epochs.entries == ((2, 0), (5, 4))
    assert (found / "topic-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n2 0\n5 4\n"


@pytest.mark.parametrize("rest", ["", "0", "0\n1", "0\n1\n", "0\n1\n5 0", "\0\0\0\0\0\0\0"])
def test_epochs_that_a_power_cut_took_from_a_log_without_durable_records(tmp_path: Path, rest: str) -> None:
    """They are not synced before there are records, and are found again in those."""
    with log(tmp_path / "a", defaults=LARGE) as one:
        one.epochs.assign(LeaderEpoch(5), 0)
        one.epochs_changed()
        checkpoint = tmp_path / "a" / "topic-0" / "leader-epoch-checkpoint"
        assert checkpoint.read_text() == "0\n1\n5 0\n"
        append(one, batch("v"), epoch=5)
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
    (found / "topic-0" / "leader-epoch-checkpoint").write_text(rest)
    with log(found, defaults=LARGE) as one:
        assert (one.end_offset, one.epochs.entries) == (1, ((5, 0),))
    (found / "topic-0" / "leader-epoch-checkpoint").write_text("0\n1\n")
    with pytest.raises(StorageRefused), log(found, defaults=LARGE):
        pytest.fail("its records were durable, and so was the file")


def test_epochs_of_no_records_are_synced_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    with log(tmp_path / "a", defaults=LARGE) as one:
        one.epochs.assign(LeaderEpoch(5), 0)
        one.epochs_changed()
        assert "leader-epoch-checkpoint" not in synced
        synced.clear()
        append(one, batch("v"), epoch=5)
        one.begin_sync()()
        assert one.recovery_point == 1
        assert synced == ["leader-epoch-checkpoint", "topic-0", "a"]


def test_epochs_that_were_forgotten_with_their_records_are_not_missed(tmp_path: Path) -> None:
    """The start of the log passed them, but the segment that holds their records is still there."""
    with log(tmp_path / "a", defaults=LARGE) as one:
        for epoch in (0, 1, 1):
            append(one, batch("v"), epoch=epoch)
            one.epochs.assign(LeaderEpoch(epoch), one.end_offset - 1)
        one.epochs_changed()
        one.begin_sync()()
        one.advance_start(3)
        one.epochs.truncate_from_start(3)
        one.epochs_changed()
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
    with storage(found, defaults=LARGE) as opened:
        assert not opened.recovered
        assert (opened.open(TP).start_offset, opened.open(TP).end_offset) == (3, 3)


def test_an_epoch_that_goes_back_ends_the_log(tmp_path: Path) -> None:
    """Old bytes behind new ones: a truncation that half survived a power cut. Rules that keep epochs in order
    cut there; older rules have such logs, and keep them."""
    with log(tmp_path / "a", defaults=LARGE, verify_epochs=False) as one:
        for epoch in (0, 3, 3):
            append(one, batch("new"), epoch=epoch)
        stale = batch("old")
        stale.stamp(3, 1)
        one.append_as_follower(stale)
        strict = after_a_crash(tmp_path / "a", tmp_path / "strict")
        lenient = after_a_crash(tmp_path / "a", tmp_path / "lenient")
    with storage(strict) as opened:
        assert opened.open(TP).end_offset == 3
        assert "leader epoch 1 in 3" in opened.recovered[0].finding
    with storage(lenient, verify_epochs=False) as opened:
        assert opened.open(TP).end_offset == 4


def test_a_wrong_epoch_on_disk_is_refused(tmp_path: Path) -> None:
    """The leader epoch is not under the CRC, but the cache knows it."""
    filled(tmp_path)
    first = segments(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[15] ^= 4
    first.write_bytes(content)
    wrong = pytest.raises(CorruptLog, match="leader epoch 4 at offset 0, which is of epoch 0")
    with log(tmp_path, defaults=small()) as one, wrong:
        one.read(0, 2)


def test_a_log_cut_below_its_start_begins_anew(tmp_path: Path) -> None:
    """Nothing above the start survived: then the log is empty, and starts where it did."""
    with log(tmp_path / "a", defaults=LARGE) as one:
        append(one, *(batch(str(n)) for n in range(6)))
        one.advance_start(5)
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
    path = found / LOG
    path.write_bytes(path.read_bytes()[:200])
    with storage(found) as opened:
        one = opened.open(TP)
        assert (one.start_offset, one.end_offset) == (5, 5)
        assert opened.recovered
        append(one, batch("next"))
        assert values(read_all(one)) == [(5, "next")]


def test_leftovers_are_removed_and_foreign_files_are_not(tmp_path: Path) -> None:
    """What a crash interrupted goes; what is not ours stays."""
    filled(tmp_path)
    inside = tmp_path / "topic-0"
    for name in ("00000000000000000000.log.deleted", "x.tmp", "00000000000000000099.index", "notes.txt"):
        (inside / name).write_bytes(b"")
    (tmp_path / "topic-1.0123-delete").mkdir()
    with log(tmp_path, defaults=small()):
        names = {path.name for path in inside.iterdir()}
        assert "notes.txt" in names
        assert not names & {"00000000000000000000.log.deleted", "x.tmp", "00000000000000000099.index"}
        assert not (tmp_path / "topic-1.0123-delete").exists()


def test_producers_are_known_after_a_crash(tmp_path: Path) -> None:
    """From the snapshot that is known to be durable, and the batches since."""
    states = ProducerStates()
    with log(tmp_path / "a", defaults=small()) as one:
        one.restore_producers(states)
        stored: list[RecordBatch] = []
        for n in range(20):
            stored += append(one, batch(str(n), producer=n % 3, sequence=n // 3))
            states.append(stored[-1])
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
    with log(found, defaults=small()) as one:
        again = ProducerStates()
        one.restore_producers(again)
        assert sorted(again.entries()) == sorted(states.entries())
        last = copy_of(stored[-1])
        assert again.check(last) == (0, 19)


def test_rot_in_the_end_of_the_log_does_not_confuse_producers(tmp_path: Path) -> None:
    """What the snapshot knows stays known, also if the batches that would add to it cannot be read."""
    states = ProducerStates()
    with log(tmp_path, defaults=LARGE) as one:
        one.restore_producers(states)
        for n in range(10):
            states.append(append(one, batch("v" * 60, producer=1, sequence=n))[0])
    content = bytearray((tmp_path / LOG).read_bytes())
    content[5 * len(content) // 10 + 100] ^= 1
    (tmp_path / LOG).write_bytes(content)
    with storage(tmp_path, defaults=LARGE) as opened:
        again = ProducerStates()
        opened.open(TP).restore_producers(again)
        assert list(again.entries()) == list(states.entries())
        assert "cannot restore all producers of topic-0" in opened.trouble


def test_a_snapshot_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """An older one, or the log itself, says the same."""
    states = ProducerStates()
    with log(tmp_path, defaults=small()) as one:
        one.restore_producers(states)
        for n in range(20):
            states.append(append(one, batch(str(n), producer=n % 3, sequence=n // 3))[0])
    newest = sorted((tmp_path / "topic-0").glob("*.snapshot"))[-1]
    assert newest.name == "00000000000000000020.snapshot"
    newest.write_bytes(newest.read_bytes()[:-1])
    with log(tmp_path, defaults=small()) as one:
        again = ProducerStates()
        one.restore_producers(again)
        assert sorted(again.entries()) == sorted(states.entries())
