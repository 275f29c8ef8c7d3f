"""A reader that goes on where it stopped reads nothing but its records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, bytes_of, read_all, values
from tests.storage.folders import log

from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.segment import READERS_MAX


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The size of each read of a file."""
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, position: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", counted)
        yield sizes


def written(one: FileLog, count: int = 40) -> list[bytes]:
    stored = bytes_of(append(one, *(batch(f"{number:04}" * 100) for number in range(count))))
    one._tail.clear(one.end_offset)
    return stored


def test_only_the_first_read_looks_for_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with log(tmp_path) as one:
        stored = written(one)
        with counted_reads(monkeypatch) as sizes:
            assert bytes_of(read_all(one, max_bytes=2 * len(stored[0]))) == stored
    assert sizes[-19:] == [2 * len(stored[0])] * 19
    assert len(sizes) <= 20 + 2


def test_several_readers_share_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with log(tmp_path) as one:
        stored = written(one)
        starts = range(0, 2 * READERS_MAX, 2)
        for start in starts:
            assert bytes_of(one.read(start, start + 1)) == stored[start : start + 1]
        with counted_reads(monkeypatch) as sizes:
            for start in starts:
                assert bytes_of(one.read(start + 1, start + 2, 1)) == stored[start + 1 : start + 2]
        one.read(1, 2)
        assert len(one.segments.active._read_to) == READERS_MAX
    assert len(sizes) == 2 * READERS_MAX, "a header, and a batch"


def test_a_position_is_forgotten_when_the_log_is_cut(tmp_path: Path) -> None:
    with log(tmp_path) as one:
        written(one)
        one.read(0, 10, 2_000)
        one.truncate_to(2)
        append(one, batch("another, of another size"), batch("and one more"))
        one._tail.clear(one.end_offset)
        assert [value[:7] for _, value in values(read_all(one, max_bytes=500))] == [
            "0000000",
            "0001000",
            "another",
            "and one",
        ]


def test_a_read_that_stops_before_the_end_of_the_bytes_goes_on_there(tmp_path: Path) -> None:
    """What is read beyond the high watermark is left out, and comes with the next read."""
    with log(tmp_path) as one:
        stored = written(one)
        assert bytes_of(one.read(0, 3)) == stored[:3]
        assert bytes_of(one.read(3, one.end_offset)) == stored[3:]
