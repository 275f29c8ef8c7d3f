"""Files of the processes of a play, and the clean-up after a play that was killed.

All plays of a user are below one folder, each in a folder that is locked while the play runs. A free lock
means that the play has ended. Its brokers end by themselves, except paused ones: `clean_up` finds them by the
locks on their data and kills them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from pathlib import Path

from tidelog.cluster.directory import AlreadyRunning, DirectoryLock, kill_leftovers
from tidelog.cluster.errors import TrialError
from tidelog.errors import reason

ROOM_BYTES_MIN = 64 * 1024 * 1024
REMOVE_SECONDS_MAX = 10.0
REMOVE_PAUSE_SECONDS = 0.05


def all_trials() -> Path:
    return Path(tempfile.gettempdir()) / f"tidelog-trials-{os.getuid()}"


class TrialFolder:
    """The files of one play, from its beginning to ``close``."""

    def __init__(self, parent: Path | None = None) -> None:
        """Raises ``TrialError`` if the disk is full or the folder cannot be written."""
        parent = all_trials() if parent is None else parent
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            clean_up(parent)
            free = shutil.disk_usage(parent).free
            if free < ROOM_BYTES_MIN:
                raise TrialError(
                    f"{parent}: only {free // 2**20} MB are free and brokers need {ROOM_BYTES_MIN // 2**20}; "
                    "make room, or set TMPDIR to a directory with more"
                )
            # Under another name until it is locked: `clean_up` of another process would remove it.
            unlocked = Path(tempfile.mkdtemp(prefix="new-", dir=parent))
            self._lock = DirectoryLock(unlocked)
            self._lock.acquire()
            self.path = unlocked.rename(parent / unlocked.name.replace("new-", "trial-", 1))
        except OSError as error:
            raise TrialError(
                f"{error.filename or parent}: {reason(error)}; set TMPDIR to a directory that can be written"
            ) from None
        atexit.register(self.close)

    def close(self) -> None:
        """Remove the files. A broker whose start was interrupted ends by itself, but may write until then."""
        deadline = time.monotonic() + REMOVE_SECONDS_MAX
        shutil.rmtree(self.path, ignore_errors=True)
        while self.path.exists() and time.monotonic() < deadline:
            time.sleep(REMOVE_PAUSE_SECONDS)
            shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()
        atexit.unregister(self.close)


def clean_up(parent: Path) -> None:
    """Kill processes of plays that have ended, and remove their files."""
    for folder in parent.glob("trial-*"):
        lock = DirectoryLock(folder)
        try:
            lock.acquire()
        except (AlreadyRunning, OSError):
            continue
        for play in folder.glob("play-*"):
            kill_leftovers(play)
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
