"""A log that could not be opened when the broker started: its disk refuses, or a file of it is damaged.

Its partition is offline on this broker, and all others are served. What the checkpoints of the folder say
about it is kept and written again with theirs, so that a later attempt, or the next start, finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelog.core.log_port import StorageFailure
from tidelog.storage.checkpoints import Checkpointed, MalformedCheckpoint

CANNOT_OPEN = (OSError, StorageFailure, MalformedCheckpoint)
"""What opening a log may raise about its own files."""


@dataclass(frozen=True, slots=True)
class UnopenedLog:
    folder: Path
    checkpointed: Checkpointed
    error: Exception

    @property
    def reason(self) -> str:
        error = self.error
        if isinstance(error, OSError):
            return f"cannot open {error.filename or self.folder}: {error.strerror or error}"
        return str(error)
