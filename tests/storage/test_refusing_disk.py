"""A disk that refuses to make, remove or read a log: nothing stays half done, the next try may succeed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.batches import append, batch, read_all, values
from tests.storage.folders import TP, log, small, storage
from tests.storage.refusing import refusing

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import TopicPartition
from tidelog.storage.background import finished


def test_a_name_that_is_taken_is_free_once_it_is_moved_away(tmp_path: Path) -> None:
    """One line that says what to do; then the log is created as if nothing had been."""
    with storage(tmp_path) as opened:
        taken = tmp_path / "topic-0"
        taken.touch()
        with pytest.raises(StorageFailure, match=r"topic-0: something has its name; move it away$"):
            opened.open(TP)
        assert opened.partitions() == ()
        taken.unlink()
        append(opened.open(TP), batch("a"))
        assert values(read_all(opened.open(TP))) == [(0, "a")]


def test_a_log_that_could_not_be_finished_leaves_its_name_free(tmp_path: Path) -> None:
    """The folder was made, its first file was not: the folder goes, or the next try would find it there."""
    with storage(tmp_path) as opened:
        with (
            refusing("open", lambda path: path.suffix == ".log"),
            pytest.raises(StorageFailure, match=r"cannot create .*topic-0: Input/output error$"),
        ):
            opened.open(TP)
        assert not (tmp_path / "topic-0").exists()
        append(opened.open(TP), batch("a"))
    with storage(tmp_path) as again:
        assert values(read_all(again.open(TP))) == [(0, "a")]


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path) -> None:
    with storage(tmp_path) as opened, pytest.raises(StorageFailure, match="cannot be the name"):
        opened.open(TopicPartition("../elsewhere", 0))


def test_a_log_that_cannot_be_deleted_is_still_there(tmp_path: Path) -> None:
    """And can be deleted later: a storage that had forgotten it would call it deleted."""
    with storage(tmp_path) as opened:
        append(opened.open(TP), batch("a"))
        opened.checkpoint_high_watermarks({TP: 1})
        with (
            refusing("rename", lambda path: path.name == "topic-0"),
            pytest.raises(StorageFailure, match=r"cannot delete .*topic-0: Input/output error$"),
        ):
            opened.delete(TP)
        assert opened.partitions() == (TP,)
        assert opened.checkpointed_high_watermark(TP) == 1
        append(opened.open(TP), batch("b"))
        assert values(read_all(opened.open(TP))) == [(0, "a"), (1, "b")]
        opened.delete(TP)
        assert opened.partitions() == ()
        assert list(tmp_path.glob("topic-0*")) == []


def test_a_log_whose_folder_was_removed_by_hand_can_be_deleted(tmp_path: Path) -> None:
    with storage(tmp_path) as opened:
        folder = opened.open(TP).folder
        folder.rename(tmp_path / "elsewhere")
        opened.delete(TP)
        assert opened.partitions() == ()
        append(opened.open(TP), batch("new"))
        assert values(read_all(opened.open(TP))) == [(0, "new")]


def test_old_segments_that_cannot_be_removed_stay_until_they_can(tmp_path: Path) -> None:
    """The start moves all the same: what lies below it is not read any more."""
    with storage(tmp_path, defaults=small()) as opened:
        one = opened.open(TP)
        append(one, *(batch(str(n)) for n in range(20)))
        first, count = one.segments.first.path, len(one.segments)
        with refusing("rename", lambda path: path == first):
            one.advance_start(15)
        assert opened.trouble == f"{first}: Input/output error"
        assert (one.start_offset, len(one.segments)) == (15, count)
        assert values(read_all(one))[0] == (15, "15")
        one.advance_start(16)
        assert not first.exists()
        assert values(read_all(one))[0] == (16, "16")


def test_what_cannot_be_read_is_a_failure_whatever_is_looked_for(tmp_path: Path) -> None:
    """Lookups by time raise; producers that cannot be read from the log are reported, and forgotten."""
    with log(tmp_path, defaults=small(), tail_bytes=0, open_segments_max=1) as one:
        append(one, *(batch(str(n), timestamp=1_000 + n, producer=1, sequence=n) for n in range(20)))
        sealed = [segment.path for segment in one.segments][:-1]
        with refusing("open", lambda path: path in sealed):
            with pytest.raises(StorageFailure, match="cannot read"):
                finished(one.offset_for_timestamp(1_001))
            one.restore_producers(ProducerStates())
        assert finished(one.offset_for_timestamp(1_001)) == (1_001, 1)
