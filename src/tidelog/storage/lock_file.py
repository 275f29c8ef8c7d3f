"""Lock files that name their holder.

A lock says that a folder is in use. To stop its user one must also know which process that is. So the holder
writes its process into the file, by id and start time. Rules of the file: the name counts only while the lock
is held, because a killed process leaves its name behind; and only for a process that began at that time,
because ids are used again.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

# `is_held` takes the lock for a moment; that must not make a holder-to-be give up.
_TRIES = 5
_PAUSE_SECONDS = 0.02
_NAME_BYTES_MAX = 100


class Process(NamedTuple):
    """One process, never mistaken for a later one with the same id."""

    pid: int
    started: str
    """Its start time as the system counts; empty where there is no /proc to ask."""

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls(pid, start_time(pid))

    @property
    def is_alive(self) -> bool:
        return bool(self.started) and start_time(self.pid) == self.started


def start_time(pid: int) -> str:
    """When a process began. Empty if there is none, or if the system does not tell."""
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
    with suppress(OSError):  # a full disk: the lock holds without a name in it
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
    """Who holds the lock. None if it is free, and for a moment while it is being taken."""
    try:
        with open(path, "rb") as file:
            pid, _, started = file.read(_NAME_BYTES_MAX).decode("ascii", "replace").rstrip().partition(" ")
    except OSError:
        return None
    if not pid.isdecimal() or not is_held(path):
        return None
    named = Process(int(pid), started)
    return named if named.is_alive or not started else None
