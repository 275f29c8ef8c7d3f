"""The keeper's directory: its format marker, and a lock so that only one keeper uses it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tidelog.errors import Refusal

FORMAT_FILE = "format"
FORMAT = "tidelog keeper 1\n"
LOCK_FILE = "lock"


class KeeperStorageError(Refusal):
    """The keeper cannot use its files. The message names the file and the reason in one line."""


class DataDir:
    """Locks the directory until closed. The system releases the lock of a process that died."""

    __slots__ = ("_lock", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        except FileExistsError:
            raise KeeperStorageError(f"the keeper cannot use {path}: this is a file, not a folder") from None
        except OSError as error:
            raise KeeperStorageError(f"the keeper cannot use {path}: {error.strerror}") from None
        try:
            self._take_lock()
            self._check_format()
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            used = f"{self.path} is used by another keeper (process {holder})"
            raise KeeperStorageError(f"{used}: stop that one, or choose another directory") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _check_format(self) -> None:
        marker = self.path / FORMAT_FILE
        try:
            found = marker.read_text("utf-8", "replace")
        except FileNotFoundError:
            if any(entry.name not in (LOCK_FILE, FORMAT_FILE + ".tmp") for entry in self.path.iterdir()):
                raise KeeperStorageError(
                    f"{self.path} holds files but none called {FORMAT_FILE!r}: it is not a keeper's directory"
                ) from None
            write_durably(marker, FORMAT.encode())
            return
        if found != FORMAT:
            raise KeeperStorageError(f"{marker} says {found[:40]!r}, and this keeper reads {FORMAT!r}")

    def close(self) -> None:
        os.close(self._lock)


def write_durably(path: Path, content: bytes, *, fsync: bool = True) -> None:
    """Replace a file so that a power cut leaves the old or the new content."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        if fsync:
            os.fsync(file.fileno())
    temporary.replace(path)
    if fsync:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
