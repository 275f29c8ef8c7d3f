"""What storage refuses, and how it says so.

``StorageFailure`` of the port (an append that left no trace) is raised by the logs; the two here have no
counterpart in the simulator: a folder that this broker must not use, and bytes that are not what was written.
Each message is one line that names the file.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.core.log_port import StorageFailure


class StorageRefused(Exception):
    """The log folder cannot be used as it is. The message says what to do; nothing was changed."""


class CorruptLog(StorageFailure):
    """Stored bytes are not what was written: bit rot, or a foreign hand. They are never served."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
