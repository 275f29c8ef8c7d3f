"""Memory and CPU time of a process and of all that it starts, watched through /proc while it runs."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bench.processes import cpu_seconds, resident_bytes

SAMPLE_SECONDS = 0.5


class FamilyWatch:
    """From `with` on. `cpu_seconds` is what all of them took together. `peaks` has the largest sums of memory
    seen: of `java`, of `workers` (Python processes below Java), of `python` (all others); and `worker`, the
    largest single one of the workers.

    Pages that forked workers share are counted for each of them, so what they need is rather less."""

    def __init__(self, pid: int) -> None:
        self.peaks: Counter[str] = Counter()
        self._cpu: dict[int, float] = {}
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> FamilyWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            seen: Counter[str] = Counter()
            for pid, kind in _family(self._pid):
                with suppress(OSError):
                    size = resident_bytes(pid)
                    self._cpu[pid] = cpu_seconds(pid)
                    seen[kind] += size
                    if kind == "workers":
                        seen["worker"] = max(seen["worker"], size)
            for kind, size in seen.items():
                self.peaks[kind] = max(self.peaks[kind], size)


def _family(ancestor: int) -> list[tuple[int, str]]:
    """All living descendants and the process itself, each with its kind."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                head, _, rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
                names[int(entry)] = head.partition("(")[2]
                children.setdefault(int(rest.split()[1]), []).append(int(entry))
    found = []
    waiting = [(ancestor, False)]
    while waiting:
        pid, below_java = waiting.pop()
        name = names.get(pid, "")
        is_java = name == "java"
        # A process that Java is about to start is, for a moment, a copy of Java under another name.
        if is_java or not below_java or name.startswith("python"):
            found.append((pid, "java" if is_java else "workers" if below_java else "python"))
        waiting += [(child, below_java or is_java) for child in children.get(pid, [])]
    return found
