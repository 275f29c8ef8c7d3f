"""A change of a log that the disk refuses: the log is as it was, and trying again does all of it.

Whenever the broker is killed, the next start finds what was there. One case each: ``test_faulty_disk``
searches for other cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, bytes_of, copy_of, read_all
from tests.storage.compaction.compacting import NOW, compact, compacted, fill, opened, records
from tests.storage.folders import TP, after_a_crash, folder, small, storage
from tests.storage.killing import Killed, killed_at
from tests.storage.refusing import refusing

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

OTHER = TopicPartition("other", 0)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where files are in memory: what a disk makes of syncs is not what these tests are about."""
    with folder() as path:
        yield path


def is_checkpoint(path: Path) -> bool:
    return path.name.startswith(RECOVERY_POINTS)


def is_log(path: Path) -> bool:
    return path.suffix == ".log"


def synced(storage: FileStorage, count: int = 20) -> FileLog:
    """A log of several segments, all of it on disk, and the checkpoints say so."""
    log = storage.open(TP)
    append(log, *(batch(f"{n}".ljust(20), producer=1, sequence=n) for n in range(count)))
    log.epochs.assign(LeaderEpoch(0), 0)
    log.epochs_changed()
    log.begin_sync()()
    storage._checkpoint_now()
    return log


def contents(log: FileLog) -> tuple[int, int, list[bytes]]:
    return log.start_offset, log.end_offset, bytes_of(read_all(log))


def killed(path: Path, to: Path) -> tuple[int, int, list[bytes]]:
    """What the next process finds, if this one is killed now; nothing may be wrong with it."""
    with storage(after_a_crash(path, to), defaults=small(), tail_bytes=0) as found:
        assert not any(each.truncated_bytes or each.missing for each in found.recovered)
        return contents(found.open(TP))


# ---------------------------------------------------------------- checkpoints that could not be written


def test_a_truncation_is_checkpointed_before_the_files_change_also_at_the_second_try(tmp_path: Path) -> None:
    """Else the next start takes what was appended since for synced, and cuts off what is of another epoch."""
    with storage(tmp_path / "a", defaults=small(), background=lambda _: None) as one:
        log = synced(one)
        before = contents(log)
        with refusing("open", is_checkpoint), pytest.raises(StorageFailure, match="cannot write checkpoints"):
            log.truncate_to(5)
        assert contents(log) == before
        assert killed(tmp_path / "a", tmp_path / "b") == before
        log.truncate_to(5)
        append(log, *(batch("new") for _ in range(4)), epoch=3)
        assert killed(tmp_path / "a", tmp_path / "c") == contents(log)
        assert log.end_offset == 9


def test_a_restart_below_the_start_is_checkpointed_also_at_the_second_try(tmp_path: Path) -> None:
    """Else the checkpointed start hides what was appended since."""
    with storage(tmp_path / "a", defaults=small(), background=lambda _: None) as one:
        log = one.open(TP)
        append(log, *(batch(str(n)) for n in range(20)))
        log.advance_start(18)
        one._checkpoint_now()
        before = contents(log)
        with refusing("open", is_checkpoint), pytest.raises(StorageFailure, match="cannot write checkpoints"):
            log.restart_at(3)
        assert contents(log) == before
        log.restart_at(3)
        append(log, batch("new"))
        assert killed(tmp_path / "a", tmp_path / "b") == contents(log) == (3, 4, bytes_of(read_all(log)))


def test_gaps_are_checkpointed_before_the_first_one_also_at_the_second_try(tmp_path: Path) -> None:
    """A follower of a compacted log gets a batch with a gap before it. A start that does not know of gaps
    takes it for damage."""
    with storage(tmp_path / "a", defaults=small(), background=lambda _: None) as one:
        log = synced(one)
        before = contents(log)
        sent = batch("after a gap")
        sent.stamp(30, 0)
        with refusing("open", is_checkpoint), pytest.raises(StorageFailure, match="cannot write checkpoints"):
            log.append_as_follower(copy_of(sent))
        assert contents(log) == before
        log.append_as_follower(copy_of(sent))
        assert log.end_offset == 31
        assert killed(tmp_path / "a", tmp_path / "b") == contents(log)


def test_a_log_that_was_found_shorter_takes_nothing_before_that_is_checkpointed(tmp_path: Path) -> None:
    """Its segments end below the recovery point. Until the checkpoint is written, recovery would apply it to
    new records."""
    with storage(tmp_path / "a", defaults=small()) as one:
        log = synced(one)
        removed = log.segments.active.path.name
        after_a_crash(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "topic-0" / removed).unlink()
    with storage(tmp_path / "b", defaults=small(), background=lambda _: None) as one:
        log = one.open(TP)
        before = contents(log)
        with refusing("open", is_checkpoint), pytest.raises(StorageFailure, match="cannot write checkpoints"):
            append(log, batch("new"), epoch=3)
        assert contents(log) == before
        append(log, *(batch("new") for _ in range(6)), epoch=3)
        assert killed(tmp_path / "b", tmp_path / "c") == contents(log)


def test_a_deleted_partition_that_is_still_checkpointed_does_not_count_for_its_namesake(
    tmp_path: Path,
) -> None:
    """The broker was killed before the checkpoints were written without it. Then the partition is created
    again, and the broker is killed again."""
    with storage(tmp_path / "a", defaults=small(), background=lambda _: None) as one:
        synced(one).advance_start(18)
        one.checkpoint_high_watermarks({TP: 20})
        one._checkpoint_now()
        one.delete(TP)
        after_a_crash(tmp_path / "a", tmp_path / "b")
    with storage(tmp_path / "b", defaults=small(), background=lambda _: None) as one:
        assert one.partitions() == ()
        assert not one.recovered
        log = one.open(TP)
        assert one.checkpointed_high_watermark(TP) == 0
        append(log, batch("new"), epoch=3)
        assert killed(tmp_path / "b", tmp_path / "c") == contents(log) == (0, 1, bytes_of(read_all(log)))


def test_a_thread_that_comes_late_writes_no_checkpoints(tmp_path: Path) -> None:
    """The log it worked for was deleted, then the broker was stopped: the checkpoints of the other logs are
    those of a clean shutdown, and the folder may be another process's."""
    late: list[Callable[[], None]] = []
    one = FileStorage(tmp_path, broker_id=1, defaults=small(), background=late.append)
    synced(one).advance_start(18)
    append(one.open(OTHER), *(batch("x" * 100) for _ in range(8)))
    one.delete(OTHER)
    assert one.close()
    for job in late:
        job()
    with storage(tmp_path, defaults=small()) as again:
        assert again.clean_shutdown
        assert (again.open(TP).start_offset, again.open(TP).end_offset) == (18, 20)
        assert not again.recovered


# ---------------------------------------------------------------- files that could not be renamed or made


def test_a_segment_that_cannot_be_renamed_stays_in_the_log(tmp_path: Path) -> None:
    """If the log forgot it, a later truncation would cut what comes before, and the next start would find a
    segment behind a hole."""
    with storage(tmp_path / "a", defaults=small()) as one:
        log = synced(one)
        before, segments = contents(log), [segment.path for segment in log.segments]
        with refusing("rename", lambda path: path == segments[-2]):
            with pytest.raises(StorageFailure, match=r"cannot cut .*topic-0: Input/output error"):
                log.truncate_to(9)
            assert contents(log) == before
            assert [path for path in segments if path.exists()] == segments
        append(log, batch("more"))
        assert killed(tmp_path / "a", tmp_path / "b") == contents(log)
        log.truncate_to(5)
        assert killed(tmp_path / "a", tmp_path / "c") == contents(log)
        assert log.end_offset == 5


def test_a_file_that_cannot_be_cut_stays_whole_and_so_does_what_follows_it(tmp_path: Path) -> None:
    with storage(tmp_path / "a", defaults=small()) as one, pytest.MonkeyPatch.context() as patch:
        log = synced(one)
        before = contents(log)
        patch.setattr(os, "ftruncate", _refused)
        with pytest.raises(StorageFailure, match=r"cannot cut .*topic-0: Input/output error"):
            log.truncate_to(9)
        patch.undo()
        assert contents(log) == before
        append(log, batch("more"))
        assert killed(tmp_path / "a", tmp_path / "b") == contents(log)


def test_a_log_that_cannot_be_begun_anew_is_not_dropped(tmp_path: Path) -> None:
    """There is no room for the new segment: the old ones are taken back."""
    with storage(tmp_path / "a", defaults=small()) as one:
        log = synced(one)
        before = contents(log)
        with (
            refusing("open", lambda path: path.name.startswith("00000000000000000050")),
            pytest.raises(StorageFailure, match=r"cannot cut .*topic-0: Input/output error"),
        ):
            log.restart_at(50)
        assert contents(log) == before
        append(log, batch("more"))
        assert killed(tmp_path / "a", tmp_path / "b") == contents(log)
        log.restart_at(50)
        assert killed(tmp_path / "a", tmp_path / "c") == contents(log) == (50, 50, [])


def test_what_cannot_be_taken_back_stops_the_log(tmp_path: Path) -> None:
    """The content of such a disk is unknown: nothing is written to this log until a restart has read it."""
    with storage(tmp_path / "a", defaults=small()) as one:
        log = synced(one, 18)
        before = contents(log)
        first = log.segments.first.path
        with (
            refusing("rename", lambda path: path == first or path.suffix == ".deleted"),
            pytest.raises(StorageFailure, match="failed: Input/output error; check the disk"),
        ):
            log.restart_at(50)
        for change in (
            lambda: append(log, batch("more")),
            log.roll,
            lambda: log.truncate_to(3),
            lambda: log.restart_at(60),
        ):
            with pytest.raises(StorageFailure, match="check the disk and start the broker again"):
                change()
        assert (log.start_offset, log.end_offset) == before[:2]
        after_a_crash(tmp_path / "a", tmp_path / "b")
    with storage(tmp_path / "b", defaults=small()) as again:
        start, end, left = contents(again.open(TP))
        assert (start, left) == (0, before[2][:end])


def test_a_swap_that_the_disk_refuses_is_taken_back(tmp_path: Path) -> None:
    """One that was left half done would be finished by the next start, over what was appended since."""
    settings = compacted()
    with storage(tmp_path / "a", defaults=settings) as one:
        log = opened(one)
        for n in range(3):
            fill(log, [("a", f"{n}"), ("b", f"{n}")])
        log.begin_sync()()
        before = records(log)
        second = [segment.path for segment in log.segments][1]
        with refusing("rename", lambda path: path == second):
            for job in one.next_compaction(NOW, {TP: log.end_offset}) or ():
                job()
        assert "cannot compact topic-0: cannot swap segments of" in one.trouble
        assert records(log) == before
        assert not list(log.folder.glob("*.swap"))
        log.truncate_to(2)
        append(log, batch("new"))
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
        with storage(found, defaults=settings) as again:
            assert records(again.open(TP)) == records(log)
        fill(log, [("c", "1")])
        log.begin_sync()()
        assert compact(one) == 1


# ---------------------------------------------------------------- snapshots of producers


def snapshots(log: FileLog) -> list[int]:
    return sorted(int(path.stem) for path in log.folder.glob("*.snapshot"))


def test_a_snapshot_of_what_was_cut_off_is_gone_at_once(tmp_path: Path) -> None:
    """The threads have still to write some and to remove others. Then the log grows again, and is synced and
    checkpointed: a snapshot that was left would be believed."""
    late: list[Callable[[], None]] = []
    with storage(tmp_path / "a", defaults=small(), background=late.append) as one:
        log, states = one.open(TP), ProducerStates()
        log.restore_producers(states)
        for n in range(16):
            states.append(append(log, batch("v".ljust(20), producer=1, sequence=n))[0])
            if log.end_offset == 12:
                for job in late:
                    job()
        assert snapshots(log) == [4, 8]
        log.truncate_to(3)
        assert snapshots(log) == []
        for job in late:
            job()
        assert snapshots(log) == []
        late.clear()
        log.restore_producers(states)
        append(log, *(batch("w".ljust(20)) for _ in range(16)), epoch=2)
        log.begin_sync()()
        one._checkpoint_now()
        found = after_a_crash(tmp_path / "a", tmp_path / "b")
        with storage(found, defaults=small()) as again:
            assert again.open(TP).recovery_point == 19
            known = ProducerStates()
            again.open(TP).restore_producers(known)
            assert [entry.last_sequence for entry in known.entries()] == [2]


# ---------------------------------------------------------------- a start that does not come to its end


def test_a_start_that_is_killed_leaves_no_hole_for_the_next_one(tmp_path: Path) -> None:
    """A log is damaged in the middle: what follows is dropped before the file is cut, or the next start would
    find segments behind a hole and not know why."""
    with storage(tmp_path / "whole", defaults=small()) as one:
        log = synced(one)
        damaged, following = [segment.path for segment in log.segments][2:4]
        after_a_crash(tmp_path / "whole", tmp_path / "torn")
    (tmp_path / "torn" / RECOVERY_POINTS).unlink()
    file = tmp_path / "torn" / "topic-0" / damaged.name
    file.write_bytes(file.read_bytes()[:-1])
    for call in range(1_000):
        path = after_a_crash(tmp_path / "torn", tmp_path / f"start-{call}")
        try:
            with killed_at(call):
                FileStorage(path, broker_id=1, defaults=small()).close()
        except Killed:
            found = after_a_crash(path, tmp_path / f"again-{call}")
        else:
            break
        with storage(found, defaults=small()) as again:
            assert again.open(TP).end_offset == int(following.stem) - 1
            assert not any("must come" in each.finding for each in again.recovered)
    assert call > 10


def _refused(*_: object) -> None:
    raise OSError(5, "Input/output error")
