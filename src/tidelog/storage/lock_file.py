"""Lock files that name their holder.

A lock marks a folder as in use. `tidelog down` must also know which process uses it. So the holder writes its
process id and start time into the file. Rules of the file: the entry is valid only while the lock is held,
because a killed process leaves its entry behind; and only for a process with that start time, because process
ids are reused.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

# `is_held` takes the lock for a moment, so `acquire` tries more than once.
_TRIES = 5
_PAUSE_SECONDS = 0.02
_NAME_BYTES_MAX = 100


class Process(NamedTuple):
    """One process. The start time distinguishes it from a later process with the same id."""

    pid: int
    started: str
    """Its start time in the system's unit; empty on systems without /proc."""

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls(pid, start_time(pid))

    @property
    def is_alive(self) -> bool:
        return bool(self.started) and start_time(self.pid) == self.started


def start_time(pid: int) -> str:
    """The start time of a process. Empty if it does not exist, or on systems without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def acquire(path: Path) -> int:
    """Take the lock until the descriptor is closed, or the process ends. Raises `BlockingIOError` if another
    process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    with suppress(OSError):  # a full disk: the lock is held without an entry
        pid, started = Process.of(os.getpid())
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{pid} {started}\n".encode(), 0)
    return descriptor


def _lock(descriptor: int) -> None:
    for tries_left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not tries_left:
                raise
            time.sleep(_PAUSE_SECONDS)


def is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> Process | None:
    """The process that holds the lock. None if it is free, and for a moment while it is being taken."""
    try:
        with open(path, "rb") as file:
            pid, _, started = file.read(_NAME_BYTES_MAX).decode("ascii", "replace").rstrip().partition(" ")
    except OSError:
        return None
    if not pid.isdecimal() or not is_held(path):
        return None
    named = Process(int(pid), started)
    return named if named.is_alive or not started else None
