"""The processes of a trial from outside: how much memory its brokers hold, and whether any are left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.processes import resident_bytes

from tidelog.cluster.directory import running_brokers
from tidelog.storage.lock_file import Process

_SETTLED_SECONDS: Final = 10.0
"""A broker that has just started grows; from then on it is looked at."""


@dataclass(slots=True)
class _Life:
    began: float
    first_bytes: int = 0
    last_bytes: int = 0
    last_at: float = 0.0


class Brokers:
    """The brokers of one trial, as they come and go."""

    def __init__(self, evidence: Path) -> None:
        self._data_dir = evidence / "cluster"
        self._lives: dict[Process, _Life] = {}
        self.bytes_max = 0

    def look(self, now: float) -> None:
        for process in [each.process for each in running_brokers(self._data_dir) if each.process]:
            try:
                size = resident_bytes(process.pid)
            except OSError:
                continue
            life = self._lives.setdefault(process, _Life(now))
            if now >= life.began + _SETTLED_SECONDS and not life.first_bytes:
                life.first_bytes = size
            life.last_bytes, life.last_at = size, now
            self.bytes_max = max(self.bytes_max, size)

    @property
    def count(self) -> int:
        """How many broker processes there were."""
        return len(self._lives)

    def oldest(self) -> tuple[float, int, int]:
        """Of the process that lived longest: for how many seconds, its memory when it had settled, and at
        last."""
        lives = [life for life in self._lives.values() if life.first_bytes]
        if not lives:
            return 0.0, 0, 0
        oldest = max(lives, key=lambda life: life.last_at - life.began)
        return oldest.last_at - oldest.began, oldest.first_bytes, oldest.last_bytes

    def left(self) -> list[int]:
        return [process.pid for process in self._lives if process.is_alive]


def of_session(session: int) -> list[int]:
    """The processes that run in a session: those that its leader started, and theirs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_the_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_the_name[3]) == session and after_the_name[0] not in "ZX":
            found.append(int(entry.name))
    return found
