"""The whole audit on one of its engines, in a process of its own, with the time that each part of it took.

    python -m bench.audit_engine EVIDENCE spark|local

Prints one line of JSON: `phases` in seconds, in their order, and `counts`, the findings of each kind.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

from tidelog.pipeline.audit.run import audit


class Stopwatch:
    """What is going on from one phase to the next."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = ("plan", perf_counter())

    def phase(self, name: str, seconds: float | None) -> None:
        now = perf_counter()
        before, since = self._last
        self.phases[before] = round(self.phases.get(before, 0.0) + now - since, 3)
        self._last = (name, now)

    def judged(self, part: float, rows: int) -> None: ...
    def said(self, text: str) -> None: ...


def main(folder: str, engine: str) -> int:
    watch = Stopwatch()
    audited = audit(folder, engine=engine, master="local[2]" if engine == "spark" else None, watcher=watch)
    watch.phase("end", None)
    verdict = audited.verdict
    counts = {name: sum(found.values()) for name, found in verdict["counts"].items()}
    print(json.dumps({"phases": watch.phases, "counts": counts, "unjudged": verdict["unjudged"]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
