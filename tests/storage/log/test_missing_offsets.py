"""Segment files that are gone: the log opens without them, and says which offsets are missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, read_all, values
from tests.storage.folders import TP, after_a_crash, folder, small, storage

from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.missing_offsets import MissingOffsets, Witness
from tidelog.storage.log_folder import CLEAN_SHUTDOWN

LOG_STARTS = "log-start-offset-checkpoint"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where files are in memory: what a disk makes of syncs is not what these tests are about."""
    with folder() as path:
        yield path


def filled(path: Path, *, start: int = 0) -> list[Path]:
    """A log of the offsets 0 to 19, closed cleanly; returns its segments."""
    with storage(path, defaults=small()) as one:
        log = one.open(TP)
        append(log, *(batch(str(n)) for n in range(20)))
        log.advance_start(start)
        one.checkpoint_high_watermarks({TP: 20})
    segments = sorted(path.glob("topic-0/*.log"))
    assert len(segments) > 3
    return segments


def opened(path: Path) -> FileStorage:
    """Opened and closed again, after which it is as a clean shutdown leaves it."""
    with storage(path, defaults=small()) as one:
        return one


def base(segment: Path) -> int:
    return int(segment.stem)


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_segments_are_gone(tmp_path: Path, clean: bool) -> None:
    """The recovery point shows how far the log went. The loss is reported once."""
    *_, third, last = filled(tmp_path)
    if not clean:
        (tmp_path / CLEAN_SHUTDOWN).unlink()
    third.unlink()
    last.unlink()
    with storage(tmp_path, defaults=small()) as one:
        (found,) = one.recovered
        end = one.open(TP).end_offset
        assert found.missing == (MissingOffsets(base(third), 20, Witness.RECOVERY_POINT),)
        assert str(found) == (
            f"topic-0: offsets {base(third)} to 19 are missing: "
            f"the log ends at {base(third)}, the recovery point is 20"
        )
        assert found.log_end_offset == end == base(third)
        append(one.open(TP), batch("goes on"))
    assert not opened(tmp_path).recovered


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [0, 1])
def test_the_first_segment_is_gone(tmp_path: Path, clean: bool, start: int) -> None:
    """A start that was checkpointed, and one that was not because it is 0, know where the log began."""
    first, second, *_ = filled(tmp_path, start=start)
    if not clean:
        (tmp_path / CLEAN_SHUTDOWN).unlink()
    first.unlink()
    with storage(tmp_path, defaults=small()) as one:
        (found,) = one.recovered
        assert found.missing == (MissingOffsets(start, base(second), Witness.LOG_START),)
        assert str(found) == (
            f"topic-0: offsets {start} to {base(second) - 1} are missing: "
            f"the log starts at {base(second)}, and started at {start}"
        )
        assert values(read_all(one.open(TP)))[0] == (base(second), str(base(second)))
    assert not opened(tmp_path).recovered


def test_a_segment_in_the_middle_is_gone(tmp_path: Path) -> None:
    """What follows it stays: below the recovery point it is as good as before."""
    _, second, third, *_ = filled(tmp_path)
    second.unlink()
    with storage(tmp_path, defaults=small()) as one:
        (found,) = one.recovered
        assert found.missing == (MissingOffsets(base(second), base(third), Witness.NEXT_SEGMENT),)
        assert "a segment ends at" in found.finding
        assert one.open(TP).end_offset == 20


def test_all_segments_are_gone(tmp_path: Path) -> None:
    for segment in filled(tmp_path, start=2):
        segment.unlink()
    (found,) = opened(tmp_path).recovered
    assert found.missing == (MissingOffsets(2, 20, Witness.RECOVERY_POINT),)


def test_the_whole_folder_of_a_log_is_gone(tmp_path: Path) -> None:
    """After a clean shutdown every log in the checkpoints has a folder."""
    filled(tmp_path)
    shutil.rmtree(tmp_path / "topic-0")
    with storage(tmp_path, defaults=small()) as one:
        (found,) = one.recovered
        assert found.missing == (MissingOffsets(0, 20, Witness.RECOVERY_POINT),)
        assert one.partitions() == ()
    assert not opened(tmp_path).recovered


def test_what_was_not_synced_is_known_from_the_high_watermark(tmp_path: Path) -> None:
    """The recovery point speaks only of what was synced; what was committed went further."""
    with storage(tmp_path / "a", background=lambda _: None) as one:
        log = one.open(TP)
        append(log, *(batch(str(n)) for n in range(8)))
        one.checkpoint_high_watermarks({TP: 7})
        one._checkpoint_now()
        after_a_crash(tmp_path / "a", tmp_path / "b")
        size = log.size_bytes // 8
    segment = tmp_path / "b" / "topic-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[: 5 * size])
    (found,) = opened(tmp_path / "b").recovered
    assert found.missing == (MissingOffsets(5, 7, Witness.HIGH_WATERMARK),)
    assert "the log ends at 5, the high watermark was 7" in found.finding


@pytest.mark.parametrize("change", ["retention", "restart", "truncation"])
def test_what_the_broker_removed_itself_is_not_missed(tmp_path: Path, change: str) -> None:
    """However often it is killed before or after the checkpoints are written."""
    late: list[Callable[[], None]] = []
    with storage(tmp_path / "0", defaults=small(), background=late.append) as one:
        log = one.open(TP)
        append(log, *(batch(str(n)) for n in range(20)))
        log.begin_sync()()
        one._checkpoint_now()
        if change == "retention":
            log.advance_start(15)
        elif change == "restart":
            log.restart_at(40)
        else:
            log.truncate_to(3)
        lives = [after_a_crash(tmp_path / "0", tmp_path / "1")]
        while late:
            late.pop(0)()
            lives.append(after_a_crash(tmp_path / "0", tmp_path / str(len(lives) + 1)))
        assert not list(log.folder.glob("*.deleted"))
    for life in lives:
        with storage(life, defaults=small(), background=lambda _: None) as again:
            assert not any(each.missing for each in again.recovered)
            # Killed before its threads did anything: what they need to know is still there for the next.
            killed = after_a_crash(life, life.with_suffix(".killed"))
        assert not any(each.missing for each in opened(killed).recovered)
