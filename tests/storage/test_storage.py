"""All logs of a broker: checkpoints, deletion, syncs in groups, and what happens when the disk fails."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, bytes_of, read_all, values
from tests.storage.folders import TP, after_a_crash, small, storage

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.settings.topic import LogConfig
from tidelog.storage.file_storage import FileStorage

ALWAYS = LogConfig.from_properties({"tidelog.flush": "always"})
OTHER = TopicPartition("other", 3)


class Failing:
    """A disk whose syncs fail when the test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.broken = False
        self.synced = 0
        self._fdatasync = os.fdatasync
        patch.setattr(os, "fdatasync", self.sync)

    def sync(self, descriptor: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fdatasync(descriptor)
        self.synced += 1


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


# ---------------------------------------------------------------- logs and checkpoints


def test_logs_are_made_when_first_opened_and_found_again(tmp_path: Path) -> None:
    """An empty log is a log."""
    with storage(tmp_path) as opened:
        assert opened.partitions() == ()
        append(opened.open(TP), batch("a"))
        opened.open(OTHER)
        assert opened.open(TP) is opened.open(TP)
        assert opened.partitions() == (TP, OTHER)
    with storage(tmp_path) as opened:
        assert set(opened.partitions()) == {TP, OTHER}
        assert values(read_all(opened.open(TP))) == [(0, "a")]
        assert opened.open(OTHER).end_offset == 0


def test_high_watermarks_are_written_down(tmp_path: Path) -> None:
    """All of them in one file; 0 for a partition that has none."""
    with storage(tmp_path) as opened:
        append(opened.open(TP), batch("a"))
        assert opened.checkpointed_high_watermark(TP) == 0
        opened.checkpoint_high_watermarks({TP: 1})
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\ntopic 0 1\n"
        append(opened.open(OTHER), batch(*"abcde"))
        opened.checkpoint_high_watermarks({OTHER: 5})
    with storage(tmp_path) as opened:
        assert opened.checkpointed_high_watermark(TP) == 1
        assert opened.checkpointed_high_watermark(OTHER) == 5


def test_checkpoints_of_many_changes_are_written_once(tmp_path: Path) -> None:
    """Whatever comes while a write waits is part of it."""
    late: list[Callable[[], None]] = []
    with storage(tmp_path, background=late.append) as opened:
        for offset in range(10):
            opened.checkpoint_high_watermarks({TP: offset})
            opened.write_checkpoints()
        assert len(late) == 2
        late.pop(0)()
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\ntopic 0 9\n"


def test_a_deleted_log_is_gone_at_once(tmp_path: Path) -> None:
    """The name is free, the files go in the background, also after a kill in between."""
    late: list[Callable[[], None]] = []
    opened = FileStorage(tmp_path / "data", broker_id=1, background=late.append)
    append(opened.open(TP), batch("a"))
    opened.checkpoint_high_watermarks({TP: 1})
    opened.delete(TP)
    opened.delete(TP)
    assert opened.partitions() == ()
    assert not (tmp_path / "data" / "topic-0").exists()
    killed = after_a_crash(tmp_path / "data", tmp_path / "killed")
    assert list(killed.glob("*-delete"))
    assert opened.close()
    for path in (tmp_path / "data", killed):
        with storage(path) as again:
            assert again.partitions() == ()
            assert not list(path.glob("*-delete"))


def test_a_new_log_is_not_judged_by_the_offsets_of_its_namesake(tmp_path: Path) -> None:
    """Killed right after the topic was deleted and created again: no start, no recovery point, no high
    watermark of the old one is left in the checkpoints."""
    late: list[Callable[[], None]] = []
    opened = FileStorage(tmp_path / "data", broker_id=1, defaults=small(), background=late.append)
    old = opened.open(TP)
    append(old, *(batch(str(n)) for n in range(12)))
    old.advance_start(9)
    opened.checkpoint_high_watermarks({TP: 12})
    for job in late:
        job()
    assert (tmp_path / "data" / "log-start-offset-checkpoint").read_text() == "0\n1\ntopic 0 9\n"
    opened.delete(TP)
    append(opened.open(TP), batch("new"))
    killed = after_a_crash(tmp_path / "data", tmp_path / "killed")
    opened.close()
    with storage(killed) as again:
        assert again.checkpointed_high_watermark(TP) == 0
        assert values(read_all(again.open(TP))) == [(0, "new")]


def test_late_work_of_a_deleted_log_does_not_reach_its_namesake(tmp_path: Path) -> None:
    """Indexes, snapshots, epochs, removals of the old one: none of it happens in the new one's folder."""
    late: list[Callable[[], None]] = []
    with storage(tmp_path, defaults=small(), background=late.append) as opened:
        old = opened.open(TP)
        old.restore_producers(ProducerStates())
        append(old, *(batch(str(n), producer=1, sequence=n) for n in range(12)))
        old.epochs.assign(LeaderEpoch(3), 0)
        old.epochs_changed()
        old.truncate_to(2)
        before = len(os.listdir("/proc/self/fd"))
        opened.delete(TP)
        new = opened.open(TP)
        append(new, batch("new"))
        for job in late:
            job()
        assert [path.name for path in new.folder.iterdir()] == [new.segments.active.path.name]
        assert values(read_all(new)) == [(0, "new")]
        assert len(os.listdir("/proc/self/fd")) <= before


def test_logs_are_described(tmp_path: Path) -> None:
    """For DescribeLogDirs, and for people."""
    with storage(tmp_path, defaults=small()) as opened:
        one = opened.open(TP)
        append(one, *(batch(str(n)) for n in range(12)))
        (described,) = opened.describe()
        assert (
            described.size_bytes == one.size_bytes == sum(p.stat().st_size for p in one.folder.glob("*.log"))
        )
        assert (described.tp, described.start_offset, described.end_offset) == (TP, 0, 12)
        assert described.segments == len(list(one.folder.glob("*.log")))


def test_a_topics_settings_reach_its_logs(tmp_path: Path) -> None:
    """Those that are open and those that come."""
    config = LogConfig.from_properties({"segment.bytes": "150"})
    with storage(tmp_path) as opened:
        open_already = opened.open(TP)
        opened.configure("topic", config)
        later = opened.open(TopicPartition("topic", 1))
        for one in (open_already, later, opened.open(OTHER)):
            append(one, *(batch(str(n)) for n in range(4)))
        assert [log.segments for log in opened.describe()] == [2, 2, 1]


# ---------------------------------------------------------------- syncs


def test_a_group_commit_takes_up_all_logs(tmp_path: Path, disk: Failing) -> None:
    """Dirty from the first append that must be synced until a sync takes it up; durable when that is done."""
    with storage(tmp_path) as opened:
        opened.configure("topic", ALWAYS)
        first, second = opened.open(TP), opened.open(TopicPartition("topic", 1))
        append(opened.open(OTHER), batch("never mind"))
        assert not opened.dirty()
        append(first, batch("a"))
        append(second, batch("b"))
        assert opened.dirty()
        sync = opened.begin_sync()
        assert not opened.dirty()
        append(first, batch("c"))
        assert opened.dirty()
        before = disk.synced
        sync()
        assert disk.synced >= before + 2
        assert (first.recovery_point, second.recovery_point) == (1, 1)
        opened.begin_sync()()
        assert first.recovery_point == 2
        assert opened.open(OTHER).recovery_point == 0


def test_a_sync_covers_segments_that_were_rolled(tmp_path: Path, disk: Failing) -> None:
    """Also when the roll's own sync has not come to its turn: nothing before the call may be missing."""
    late: list[Callable[[], None]] = []
    with storage(tmp_path, defaults=small(**{"tidelog.flush": "always"}), background=late.append) as opened:
        one = opened.open(TP)
        append(one, *(batch(str(n)) for n in range(12)))
        opened.begin_sync()()
        assert one.recovery_point == 12
        for job in late:
            job()
        assert one.recovery_point == 12


def test_syncs_run_beside_appends(tmp_path: Path) -> None:
    """Threads sync and roll while the log grows: the recovery point at the end matches the files."""
    with ThreadPoolExecutor(4) as threads:
        defaults = small(**{"tidelog.flush": "always"})
        with storage(tmp_path, defaults=defaults, background=threads.submit) as opened:
            one = opened.open(TP)
            pending = []
            for n in range(300):
                append(one, batch(str(n)))
                if n % 10 == 9:
                    pending.append(threads.submit(opened.begin_sync()))
                if n % 90 == 89:
                    one.truncate_to(one.end_offset - 7)
            for sync in pending:
                sync.result()
            opened.begin_sync()()
            assert one.recovery_point == one.end_offset == 300 - 3 * 7
            written = bytes_of(read_all(one))
        with storage(tmp_path, defaults=defaults) as again:
            assert bytes_of(read_all(again.open(TP))) == written


def test_interval_syncs_are_due_by_time_or_by_count(tmp_path: Path) -> None:
    """Counted from when something was first seen unsynced."""
    config = LogConfig.from_properties(
        {"tidelog.flush": "interval", "flush.ms": "500", "flush.messages": "10"}
    )
    with storage(tmp_path) as opened:
        opened.configure("topic", config)
        one = opened.open(TP)
        assert opened.sync_due(0) is None
        append(one, batch("a"))
        assert not opened.dirty()
        assert opened.sync_due(1_000) is None
        assert opened.sync_due(1_499) is None
        sync = opened.sync_due(1_500)
        assert sync is not None
        sync()
        assert one.recovery_point == 1
        assert opened.sync_due(9_000) is None
        append(one, *(batch(str(n)) for n in range(10)))
        sync = opened.sync_due(9_001)
        assert sync is not None
        sync()
        assert one.recovery_point == 11


# ---------------------------------------------------------------- failures


def test_after_a_failed_sync_nothing_more_is_taken(tmp_path: Path, disk: Failing) -> None:
    """The kernel forgets the pages it could not write: a later sync would succeed and mean nothing."""
    opened = FileStorage(tmp_path, broker_id=1)
    opened.configure("topic", ALWAYS)
    one = opened.open(TP)
    append(one, batch("a"))
    disk.broken = True
    with pytest.raises(StorageFailure, match=r"topic-0 failed: Input/output error; check the disk"):
        opened.begin_sync()()
    disk.broken = False
    with pytest.raises(StorageFailure, match="start the broker again"):
        append(one, batch("b"))
    assert one.end_offset == 1
    assert one.recovery_point == 0
    assert values(read_all(one)) == [(0, "a")]
    assert not opened.close()
    assert "Input/output error" in opened.trouble
    with storage(tmp_path) as again:
        assert not again.clean_shutdown
        assert values(read_all(again.open(TP))) == [(0, "a")]


def test_a_sync_that_fails_in_the_background_is_noticed(tmp_path: Path, disk: Failing) -> None:
    """A roll whose sync fails: the recovery point stays, and the log takes nothing more."""
    opened = FileStorage(tmp_path, broker_id=1, defaults=small())
    one = opened.open(TP)
    append(one, batch("a"))
    disk.broken = True
    with pytest.raises(StorageFailure):
        append(one, *(batch(str(n)) for n in range(12)))
    assert one.recovery_point == 0
    disk.broken = False
    assert not opened.close()


def test_a_checkpoint_that_cannot_be_written_is_no_failure_of_the_log(tmp_path: Path) -> None:
    """It only makes the next recovery longer; the storage reports it."""
    with storage(tmp_path, defaults=small()) as opened:
        one = opened.open(TP)
        blocked = tmp_path / "recovery-point-offset-checkpoint.tmp"
        blocked.mkdir()
        append(one, *(batch(str(n)) for n in range(12)))
        assert "Is a directory" in opened.trouble
        assert one.end_offset == 12
        with pytest.raises(StorageFailure, match="cannot write checkpoints"):
            one.truncate_to(2)
        assert len(read_all(one)) == 12, "without the checkpoint nothing is truncated"
        blocked.rmdir()
        one.truncate_to(2)
        assert one.end_offset == 2


def test_many_logs_close_and_open_again(tmp_path: Path) -> None:
    """Closed side by side; those that were not touched are left as they are."""
    partitions = [TopicPartition("topic", n) for n in range(30)]
    with storage(tmp_path) as opened:
        for tp in partitions:
            append(opened.open(tp), batch(str(tp)))
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.log")}
    with storage(tmp_path) as opened:
        assert opened.clean_shutdown
        append(opened.open(partitions[0]), batch("more"))
    changed = [path for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp]
    assert [path.parent.name for path in changed] == ["topic-0"]


def test_new_logs_without_records_cost_one_sync_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names must be durable. Their indexes are empty, no producer wrote to them, and the folder of all
    logs need not be synced for each: a broker may have thousands, and stops within seconds."""
    count = 30
    synced: Counter[str] = Counter()
    fsync, fdatasync = os.fsync, os.fdatasync

    def counted(sync: Callable[[int], None], descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced["all logs" if path == tmp_path else "log" if path.is_dir() else "file"] += 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", partial(counted, fsync))
    monkeypatch.setattr(os, "fdatasync", partial(counted, fdatasync))
    partitions = [TopicPartition("topic", n) for n in range(count)]
    with storage(tmp_path) as opened:
        for tp in partitions:
            opened.open(tp).restore_producers(ProducerStates())
        synced.clear()
    assert synced["log"] == count
    assert synced["file"] + synced["all logs"] < count
    with storage(tmp_path) as opened:
        assert opened.clean_shutdown
        assert sorted(opened.partitions()) == partitions
