"""The whole audit on Spark, in a process of its own, with the time that each part of it took.

    python -m bench.audit_spark EVIDENCE

Prints one line of JSON: `phases` in seconds, in their order, and `counts`, the findings of each kind. An
audit that is the first to need something which others use as well (what became of each value) pays for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from tidelog.pipeline.audit.anomalies import AUDITS, Audit
from tidelog.pipeline.audit.inputs import Inputs, load
from tidelog.pipeline.audit.run import is_small
from tidelog.pipeline.audit.verdict import judge
from tidelog.pipeline.spark.session import open_session

CORES = 2


class Stopwatch:
    """What is going on from `begins` to the next `begins`."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last: tuple[str, float] | None = None

    def begins(self, phase: str | None) -> None:
        now = perf_counter()
        if self._last is not None:
            name, since = self._last
            self.phases[name] = round(self.phases.get(name, 0.0) + now - since, 3)
            print(f"    {name}: {now - since:.1f} s", file=sys.stderr, flush=True)
        self._last = None if phase is None else (phase, now)


def _watched(audit: Audit, watch: Stopwatch) -> Audit:
    found: Callable[[Inputs], Any] = audit.find

    def find(inputs: Inputs) -> Any:
        watch.begins(audit.name)
        return found(inputs)

    return replace(audit, find=find)


def main(folder: Path) -> int:
    watch = Stopwatch()
    watch.begins("start of Spark")
    spark = open_session(master=f"local[{CORES}]", app="bench", quick=is_small(folder))
    watch.begins("sums of all logs")
    verdict = judge(load(spark, folder), audits=[_watched(audit, watch) for audit in AUDITS])
    watch.begins(None)
    counts = {name: sum(found.values()) for name, found in verdict.counts.items()}
    print(json.dumps({"phases": watch.phases, "counts": counts, "unjudged": verdict.unjudged}), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
