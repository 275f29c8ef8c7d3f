"""A disk that takes no more: the append fails, the log is as it was, and goes on when there is room again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, bytes_of, copy_of, read_all, values
from tests.storage.folders import TP, after_a_crash, log, small, storage

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import LeaderEpoch
from tidelog.storage.log.file_log import FileLog


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB, where one may be mounted."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield path
    finally:
        # Lazily: a test that fails may have left a file open, and must not leave a file system behind.
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(one: FileLog, size: int) -> tuple[list[bytes], str]:
    """Append until it fails: what was taken, and why no more was."""
    stored: list[bytes] = []
    for n in range(1_000):
        try:
            stored += bytes_of(append(one, batch(str(n) * size)))
        except StorageFailure as failure:
            return stored, str(failure)
    raise AssertionError("the disk takes everything")


def fill_up(disk: Path) -> Path:
    """Leave no room at all. Returns the file to remove to make some."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))
    return ballast


def test_a_full_disk_leaves_the_log_as_it_was(tiny_disk: Path) -> None:
    """The failed append left no trace, reads go on, and so do appends when there is room."""
    ballast = tiny_disk / "ballast"
    path = tiny_disk / "data"
    with log(path) as one:
        ballast.write_bytes(bytes(60_000))
        stored, failure = fill(one, 5_000)
        assert failure == f"cannot write to {one.segments.active.path}: No space left on device"
        end, size = one.end_offset, one.segments.active.size
        assert one.segments.active.path.stat().st_size == size
        assert bytes_of(read_all(one)) == stored
        with pytest.raises(StorageFailure):
            append(one, batch("x" * 9_000))
        assert (one.end_offset, one.segments.active.size) == (end, size)
        ballast.unlink()
        stored += bytes_of(append(one, batch("room again")))
    with storage(path, tail_bytes=0) as opened:
        assert opened.clean_shutdown
        assert bytes_of(read_all(opened.open(TP))) == stored


def test_a_full_disk_while_rolling(tiny_disk: Path) -> None:
    """Not even the new segment's indexes fit: what was taken is there, and found by the next start."""
    path = tiny_disk / "data"
    with storage(path, defaults=small(**{"segment.bytes": 20_000})) as opened:
        one = opened.open(TP)
        stored, failure = fill(one, 700)
        assert "No space left on device" in failure
        assert bytes_of(read_all(one)) == stored
    with storage(path, defaults=small(**{"segment.bytes": 20_000})) as opened:
        assert bytes_of(read_all(opened.open(TP))) == stored


def test_a_full_disk_at_the_start(tiny_disk: Path) -> None:
    """A log that cannot be created is a failure with one line."""
    path = tiny_disk / "data"
    with storage(path) as opened:
        ballast = fill_up(tiny_disk)
        one = opened.open(TP)
        with pytest.raises(StorageFailure, match="No space left on device"):
            append(one, batch("a"))
        ballast.unlink()
        append(one, batch("b"))
        assert values(read_all(one)) == [(0, "b")]


@pytest.mark.parametrize("killed_first", [False, True])
def test_a_follower_truncates_on_a_full_disk(tiny_disk: Path, tmp_path: Path, killed_first: bool) -> None:
    """It cannot, until there is room again. Then it does, goes on with its new leader and is killed: the next
    start finds all that was appended and nothing that was dropped. So too if it is killed while it waits."""
    path = tiny_disk / "data"
    with storage(path, defaults=small(), background=lambda _: None) as opened:
        one = opened.open(TP)
        stored = append(one, *(batch(f"{n}".ljust(50)) for n in range(26)), epoch=1)
        one.epochs.assign(LeaderEpoch(1), 0)
        one.epochs_changed()
        one.begin_sync()()
        opened._checkpoint_now()
        ballast = fill_up(tiny_disk)
        for _ in range(2):
            with pytest.raises(StorageFailure, match="cannot write checkpoints: No space left on device"):
                one.truncate_to(1)
        assert one.end_offset == 26
        if killed_first:
            expected = bytes_of(stored)
        else:
            ballast.unlink()
            one.truncate_to(1)
            one.epochs.truncate_from_end(1)
            one.epochs_changed()
            expected = bytes_of([stored[0], *append(one, *(batch("new") for _ in range(30)), epoch=3)])
        found = after_a_crash(path, tmp_path / "found")
    with storage(found, defaults=small(), tail_bytes=0) as after:
        assert not any(each.truncated_bytes or each.missing for each in after.recovered)
        assert bytes_of(read_all(after.open(TP))) == expected


def test_a_follower_of_a_compacted_log_on_a_full_disk(tiny_disk: Path, tmp_path: Path) -> None:
    """The first gap must be checkpointed, and there is no room for that. Later there is."""
    path = tiny_disk / "data"
    sent = batch("after a gap")
    sent.stamp(7, 0)
    with storage(path, background=lambda _: None) as opened:
        one = opened.open(TP)
        append(one, batch("before"))
        ballast = fill_up(tiny_disk)
        for _ in range(2):
            with pytest.raises(StorageFailure, match="cannot write checkpoints: No space left on device"):
                one.append_as_follower(copy_of(sent))
        ballast.unlink()
        one.append_as_follower(copy_of(sent))
        found = after_a_crash(path, tmp_path / "found")
    with storage(found) as after:
        assert values(read_all(after.open(TP))) == [(0, "before"), (7, "after a gap")]


LIMITED = """
import json, resource, signal, sys
from pathlib import Path
from tests.storage.batches import append, batch
from tests.storage.folders import TP, storage
from tidelog.core.log_port import StorageFailure

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with storage(Path(sys.argv[1])) as opened:
    one = opened.open(TP)
    append(one, batch("a" * 100))
    limit = one.size_bytes + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        append(one, batch("b" * 100))
        failure = ""
    except StorageFailure as error:
        failure = str(error)
    found = [one.end_offset, one.segments.active.size, one.segments.active.path.stat().st_size]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    append(one, batch("c"))
    print(json.dumps([failure, *found, one.end_offset]))
"""


@pytest.mark.parametrize("room", [0, 1, 11, 60, 100])
def test_a_short_write_is_undone(tmp_path: Path, room: int) -> None:
    """The system takes a part of the batch and then no more: not a byte of it stays."""
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path, str(room)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": "."},
    )
    failure, end, size, on_disk, end_after = json.loads(run.stdout)
    assert failure.endswith(".log: File too large")
    assert end == 1
    assert size == on_disk == batch("a" * 100).size
    assert end_after == 2
    with log(tmp_path) as one:
        assert values(read_all(one)) == [(0, "a" * 100), (1, "c")]
