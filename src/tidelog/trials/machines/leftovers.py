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

FILE: Final = "processes.json"


class ProcessList:
    """The processes of a cluster that runs, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._processes: dict[str, str] = {}

    def add(self, pid: int) -> None:
        self._processes[str(pid)] = start_time(pid)
        self._processes = {pid: began for pid, began in self._processes.items() if _is_same(pid, began)}
        unfinished = self._path.with_name(f".{FILE}.tmp")
        with suppress(OSError):  # a full disk must not keep a trial from going on
            unfinished.write_text(json.dumps(self._processes), "utf-8")
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
        if _is_same(pid, began):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
                ended += 1
    with suppress(OSError):
        (folder / FILE).unlink()
    return ended


def start_time(pid: int) -> str:
    """What tells a process from a later one with the same id. Empty if there is none, or nobody can tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _is_same(pid: str, began: str) -> bool:
    return bool(began) and start_time(int(pid)) == began
