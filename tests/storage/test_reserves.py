"""Space is allocated ahead of a growing log, changes nothing that a reader sees, and is always given back."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, bytes_of, read_all
from tests.storage.folders import TP, dotted, storage

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import TopicPartition
from tidelog.storage import reserves
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.segment import Segment
from tidelog.storage.reserves import BEGINS_AT_BYTES, Reserves

LARGE = 600_000
SLACK = 64 << 10
"""A file system allocates whole blocks, and some of them for itself."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FileStorage]:
    probe = os.open(tmp_path / "probe", os.O_RDWR | os.O_CREAT)
    allocated = reserves._allocate is not None and reserves._allocate(probe, 1, 0, 1 << 20) == 0
    os.close(probe)
    if not allocated:
        pytest.skip("this file system allocates nothing ahead")
    with storage(tmp_path / "data") as opened:
        yield opened


def grow(log: FileLog, batches: int = 3) -> None:
    for number in range(batches):
        append(log, batch(str(number) * LARGE))


def reserved(segment: Segment) -> int:
    """What the file takes of the disk beyond its size."""
    file = os.stat(segment.path)
    assert file.st_size == segment.size
    return file.st_blocks * 512 - file.st_size


def test_a_growing_log_has_a_reserve_that_no_reader_sees(disk: FileStorage) -> None:
    log = disk.open(TP)
    append(log, batch("small"))
    assert reserved(log.segments.active) < SLACK
    grow(log)
    assert SLACK < reserved(log.segments.active) <= log.segments.active.size + SLACK
    assert len(read_all(log)) == 4


def test_a_sealed_segment_has_none(disk: FileStorage) -> None:
    log = disk.open(TP)
    grow(log)
    sealed = log.segments.active
    log.roll()
    assert reserved(sealed) < SLACK


def test_a_truncated_log_has_none_until_it_grows(disk: FileStorage) -> None:
    log = disk.open(TP)
    grow(log)
    log.truncate_to(2)
    assert reserved(log.segments.active) < SLACK
    grow(log)
    assert reserved(log.segments.active) > SLACK


def test_a_closed_log_has_none(disk: FileStorage, tmp_path: Path) -> None:
    with storage(tmp_path / "other") as other:
        log = other.open(TP)
        grow(log)
        segment = log.segments.active
        assert reserved(segment) > SLACK
    assert reserved(segment) < SLACK


def test_what_a_killed_process_left_is_given_back(disk: FileStorage, tmp_path: Path) -> None:
    with storage(tmp_path / "other") as other:
        log = other.open(TP)
        grow(log)
        before, path = bytes_of(read_all(log)), log.segments.active.path
    (tmp_path / "other" / ".kafka_cleanshutdown").unlink()
    with path.open("r+b") as file:
        assert reserves._allocate is not None
        assert not reserves._allocate(file.fileno(), 1, 0, 16 << 20)
    assert path.stat().st_blocks * 512 >= 16 << 20
    with storage(tmp_path / "other") as other:
        log = other.open(TP)
        assert reserved(log.segments.active) < SLACK
        assert bytes_of(read_all(log)) == before


def test_a_full_disk_gets_back_what_is_reserved(disk: FileStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append that found it full is made again, once."""
    grown, other = disk.open(TP), disk.open(TopicPartition("other", 0))
    grow(grown)
    write, refused = os.pwrite, []

    def refuse_while_reserved(descriptor: int, data: memoryview, position: int) -> int:
        if reserved(grown.segments.active) > SLACK:
            write(descriptor, data[:10], position)
            refused.append(position)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse_while_reserved)
        append(other, batch("first"))
    assert refused == [0]
    assert len(read_all(other)) == 1
    assert len(read_all(grown)) == 3


def test_a_disk_that_stays_full_refuses_the_append(
    disk: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = disk.open(TP)
    grow(log)
    stored = bytes_of(read_all(log))

    def refuse(_descriptor: int, _data: memoryview, _position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(StorageFailure, match="No space left"):
            append(log, batch("lost"))
    assert bytes_of(read_all(log)) == stored
    assert reserved(log.segments.active) < SLACK
    append(log, batch("kept"))
    assert len(read_all(log)) == 4


class File:
    def __init__(self) -> None:
        self.given_back = 0

    def give_back(self) -> None:
        self.given_back += 1


def test_only_the_files_that_grew_last_have_one(disk: FileStorage, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as opened:
        some = Reserves(files_max=2, free_bytes_min=0)
        first, second, third = files = [File() for _ in range(3)]
        for file in files[:2]:
            some.extend(file, opened.fileno(), 0, BEGINS_AT_BYTES)
        some.extend(first, opened.fileno(), BEGINS_AT_BYTES, 2 * BEGINS_AT_BYTES)
        some.extend(third, opened.fileno(), 0, BEGINS_AT_BYTES)
        assert [file.given_back for file in files] == [0, 1, 0]
        assert second not in some
        assert some.give_back()
        assert [file.given_back for file in files] == [1, 1, 1]
        assert not some.give_back()


def test_nothing_is_reserved_on_a_disk_with_little_room(disk: FileStorage, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as opened:
        some, early, late = Reserves(free_bytes_min=0), File(), File()
        some.extend(early, opened.fileno(), 0, BEGINS_AT_BYTES)
        some._free_bytes_min = 1 << 60
        assert some.extend(late, opened.fileno(), 0, BEGINS_AT_BYTES) == 2 * BEGINS_AT_BYTES
        assert early.given_back
        assert late not in some


def test_settings_with_small_segments_reserve_nothing(disk: FileStorage, tmp_path: Path) -> None:
    with storage(tmp_path / "other", defaults=dotted(segment_bytes=BEGINS_AT_BYTES)) as other:
        log = other.open(TP)
        grow(log)
        assert [reserved(segment) < SLACK for segment in log.segments] == [True] * 3
