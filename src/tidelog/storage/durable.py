"""Make files durable: system calls in the order that survives a power cut.

A rename is atomic, but only a sync of the file *before* it and of the folder *after* it make it durable.
These calls may take milliseconds, so the event loop runs them in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from tidelog.errors import Refusal, reason


def sync_data(descriptor: int) -> None:
    """Make a file's bytes and its size durable."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)  # macOS


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: files created, renamed or removed in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SharedNames:
    """Names that many logs add to one folder. One sync of the folder makes all names durable that existed
    when it began."""

    __slots__ = ("_added", "_lock", "_synced")

    def __init__(self) -> None:
        self._added = 0
        self._synced = 0
        self._lock = Lock()

    def added(self) -> int:
        """Returns the number to pass to ``sync``, which any thread may call."""
        self._added += 1
        return self._added

    def sync(self, folder: Path, name: int) -> None:
        with self._lock:
            if self._synced < name:
                added = self._added
                sync_folder(folder)
                self._synced = added


def write_synced(path: Path, content: bytes | bytearray | memoryview, *, sync: bool = True) -> None:
    """Replace a file as a whole: a reader finds either the old or the new content, also after a power cut.

    Until the folder is synced a power cut may bring the old content back, never a mixture. An empty file is
    not synced: it has no content to lose. Without ``sync`` a power cut may leave a part of it, or nothing.
    """
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        try:
            if content:
                write_all(descriptor, content)
                if sync:
                    sync_data(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_durably(path: Path, content: bytes) -> None:
    write_synced(path, content)
    sync_folder(path.parent)


def write_file(path: Path, text: str) -> None:
    """Replace a file atomically; write to a device or a pipe directly. Raises `Refusal`."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, "utf-8")
        else:
            write_synced(path, text.encode())
    except OSError as error:
        raise Refusal(f"{path}: {reason(error)}") from None


def unlink_all(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def write_all(descriptor: int, content: bytes | bytearray | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
