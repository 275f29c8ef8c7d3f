"""A log that cannot be opened at the start: its partition waits, others are served, nothing is forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, read_all, values
from tests.storage.folders import TP, after_a_crash, small, storage
from tests.storage.refusing import refusing

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import TopicPartition
from tidelog.storage.errors import StorageRefused
from tidelog.storage.file_storage import FileStorage

OTHER = TopicPartition("other", 0)
KEPT = [(offset, str(offset)) for offset in range(9, 12)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two logs. Of one the first nine records are deleted, and twelve are committed."""
    path = tmp_path / "data"
    with storage(path, defaults=small()) as opened:
        log = opened.open(TP)
        append(log, *(batch(str(number)) for number in range(12)))
        log.advance_start(9)
        opened.checkpoint_high_watermarks({TP: 12})
        append(opened.open(OTHER), batch("a"))
    return path


def damage(data: Path) -> Path:
    path = data / "topic-0" / "leader-epoch-checkpoint"
    path.write_text("nonsense")
    return path


def test_the_others_are_served_until_it_is_mended(data: Path) -> None:
    """It is opened by the next try, with its own start and high watermark, without a restart."""
    damaged = damage(data)
    with storage(data, defaults=small()) as opened:
        assert values(read_all(opened.open(OTHER))) == [(0, "a")]
        append(opened.open(OTHER), batch("b"))
        assert set(opened.partitions()) == {TP, OTHER}
        for _ in range(2):
            with pytest.raises(StorageFailure, match=r"topic-0/leader-epoch-checkpoint is not a checkpoint"):
                opened.open(TP)
        damaged.unlink()
        assert values(read_all(opened.open(TP))) == KEPT
        assert opened.checkpointed_high_watermark(TP) == 12
        append(opened.open(TP), batch("12"))


def test_a_disk_that_refuses_costs_one_log(data: Path) -> None:
    """As long as it refuses. The reason names the file."""
    with (
        refusing("open", lambda path: "topic-0" in path.parts),
        storage(data, defaults=small()) as opened,
    ):
        assert opened.open(OTHER).end_offset == 1
        with pytest.raises(StorageFailure, match=r"^cannot open .*topic-0/.*: Input/output error$"):
            opened.open(TP)
        assert not (data / ".kafka_cleanshutdown").exists()
    assert not (data / ".kafka_cleanshutdown").exists()
    with storage(data, defaults=small()) as again:
        assert values(read_all(again.open(TP))) == KEPT


@pytest.mark.parametrize("ended", ["closed", "killed"])
def test_what_checkpoints_say_of_it_is_kept(data: Path, tmp_path: Path, ended: str) -> None:
    """They are written again without the log. Records that were deleted do not come back with it."""
    damaged = damage(data)
    opened = FileStorage(data, broker_id=1, defaults=small())
    before = (data / "log-start-offset-checkpoint").read_text()
    append(opened.open(OTHER), batch("b"))
    opened.checkpoint_high_watermarks({OTHER: 2})
    opened.write_checkpoints()
    assert (data / "log-start-offset-checkpoint").read_text() == before == "0\n1\ntopic 0 9\n"
    killed = after_a_crash(data, tmp_path / "killed")
    assert not opened.close()
    found = data if ended == "closed" else killed
    (found / damaged.relative_to(data)).unlink()
    with storage(found, defaults=small()) as again:
        assert not again.clean_shutdown
        assert values(read_all(again.open(TP))) == KEPT
        assert again.checkpointed_high_watermark(TP) == 12


def test_what_a_later_try_recovers_is_told(data: Path) -> None:
    """And the high watermark does not point beyond the log's end."""
    damaged = damage(data)
    last = max((data / "topic-0").glob("*.log"))
    with storage(data, defaults=small()) as opened:
        assert opened.recovered == []
        damaged.unlink()
        last.write_bytes(last.read_bytes()[:-1])
        log = opened.open(TP)
        (found,) = opened.recovered
        assert (found.tp, found.log_end_offset) == (TP, log.end_offset)
        assert opened.checkpointed_high_watermark(TP) == log.end_offset < 12


def test_it_can_be_deleted(data: Path) -> None:
    """Its topic may be deleted meanwhile. A new log of its name is empty."""
    damage(data)
    with storage(data, defaults=small()) as opened:
        opened.delete(TP)
        assert opened.partitions() == (OTHER,)
        assert not (data / "topic-0").exists()
        assert opened.open(TP).end_offset == 0
        assert opened.checkpointed_high_watermark(TP) == 0
    with storage(data, defaults=small()) as again:
        assert (again.open(TP).start_offset, again.open(TP).end_offset) == (0, 0)


def test_if_none_can_be_opened_the_folder_is_refused(data: Path) -> None:
    """Then it is the disk, or the wrong user: such a broker could lead nothing. Nothing stays open."""
    before = len(os.listdir("/proc/self/fd"))
    with (
        refusing("open", lambda path: path.suffix == ".log"),
        pytest.raises(StorageRefused, match=r"^cannot open .*\.log: Input/output error$"),
    ):
        FileStorage(data, broker_id=1)
    assert len(os.listdir("/proc/self/fd")) == before
    with storage(data, defaults=small()) as again:
        assert values(read_all(again.open(TP))) == KEPT
