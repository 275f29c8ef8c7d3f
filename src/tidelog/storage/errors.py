"""Exceptions of the storage.

``StorageFailure`` of the port (an append that left no trace) is raised by the logs; the two exceptions here
have no counterpart in the simulator: a folder that this broker must not use, and bytes that differ from what
was written. Each message is one line that names the file.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.core.log_port import StorageFailure


class StorageRefused(Exception):
    """The broker must not use this log folder. The message says what to do; nothing was changed."""


class CorruptLog(StorageFailure):
    """Stored bytes differ from what was written: bit rot, or another program changed them. They are never
    served."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
