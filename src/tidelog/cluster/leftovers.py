"""Processes that a killed trial left behind: found again, and ended.

Brokers and generators end by themselves when their trial is gone. A paused broker cannot. So the folder of a
cluster names its processes, by id and start time so that nobody else is ever taken for one of them.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.storage.lock_file import Process

FILE: Final = "processes.json"


class ProcessList:
    """The processes of a cluster that runs, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._processes: list[Process] = []

    def add(self, pid: int) -> None:
        self._processes = [each for each in (*self._processes, Process.of(pid)) if each.is_alive]
        unfinished = self._path.with_name(f".{FILE}.tmp")
        with suppress(OSError):  # a full disk must not keep a trial from going on
            unfinished.write_text(json.dumps(dict(self._processes)), "utf-8")
            os.replace(unfinished, self._path)

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def end_leftovers(folder: Path) -> int:
    """End what still runs of a cluster whose trial is gone; how many processes that were."""
    try:
        listed = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return 0
    ended = 0
    for pid, began in listed.items():
        if Process(int(pid), began).is_alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
                ended += 1
    with suppress(OSError):
        (folder / FILE).unlink()
    return ended
