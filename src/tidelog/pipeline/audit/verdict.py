"""From evidence to a verdict: every audit that can run, the cause of each finding, and what was not judged.

Rules of the file:

* All findings are one table, written once to `EVIDENCE/audit/anomalies`; only sums of it and a bounded number
  of examples come to the driver. `EVIDENCE/audit/verdict.json` holds those.
* *Held* means that no violation was found. It is *conclusive* only if losses could be judged at all.
* What hinders one audit does not keep the others from running: the verdict is then partial, and says so.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.pipeline.audit.anomalies import AUDITS, Audit
from tidelog.pipeline.audit.causes import EXPLAINED, explain
from tidelog.pipeline.audit.findings import ANOMALIES, NOTICE, VIOLATION
from tidelog.pipeline.audit.inputs import ABSENT, Inputs
from tidelog.pipeline.audit.totals import count_up, name_what_is_not_judged
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.spark.small_tables import literal
from tidelog.storage.durable import write_synced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES_MAX: Final = 20
FOLDER: Final = "audit"
TABLE: Final = "anomalies"
FILE: Final = "verdict.json"
_RAW: Final = "found"
_BESIDE_EACH_OTHER: Final = 3


@dataclass(slots=True)
class Verdict:
    stage: str
    state: str
    generation: str
    judged: list[str] = field(default_factory=list)
    """The audits that ran."""
    unjudged: list[str] = field(default_factory=list)
    """What could not be judged, and why."""
    totals: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many of each anomaly, by severity; audits that ran and found nothing have zeros."""
    causes: list[dict[str, Any]] = field(default_factory=list)
    """anomaly, severity, rule, explained, count: the most frequent first."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Up to 20 of each anomaly, with their causes: violations first, then by time."""

    @property
    def violations(self) -> int:
        return sum(count.get(VIOLATION, 0) for count in self.counts.values())

    @property
    def notices(self) -> int:
        return sum(count.get(NOTICE, 0) for count in self.counts.values())

    @property
    def held(self) -> bool:
        """No promise was seen broken."""
        return not self.violations

    @property
    def conclusive(self) -> bool:
        """Whether `held` says something: a violation always does, none only if losses could be judged."""
        return not self.held or "lost" in self.judged

    @property
    def unexplained(self) -> int:
        return sum(cause["count"] for cause in self.causes if not cause["explained"])

    def as_json(self) -> dict[str, Any]:
        return {
            "held": self.held,
            "conclusive": self.conclusive,
            "violations": self.violations,
            "notices": self.notices,
            "unexplained": self.unexplained,
            **asdict(self),
        }


def judge(inputs: Inputs, *, audits: Sequence[Audit] = AUDITS) -> Verdict:
    """Run the audits and write what they found into the folder of the evidence. Raises `PipelineError`."""
    manifest = inputs.manifest
    verdict = Verdict(manifest.stage, manifest.state, manifest.generation)
    target = inputs.folder.absolute() / FOLDER
    try:
        verdict.totals = count_up(inputs)
        runnable = _runnable(inputs, audits)
        found, judged = _findings(inputs, runnable, target)
        name_what_is_not_judged(inputs)
        verdict.judged = [audit.name for audit in judged]
        _sum_up(verdict, found)
    except PipelineError:
        raise
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        raise PipelineError(f"the evidence cannot be judged: {first_line(error)}") from error
    finally:
        inputs.release()
    verdict.unjudged = list(inputs.unjudged)
    _write_json(target, verdict)
    return verdict


def _runnable(inputs: Inputs, audits: Sequence[Audit]) -> list[Audit]:
    found = []
    for audit in audits:
        absent = [ABSENT[need] for need in sorted(audit.needs - inputs.facts)]
        if absent:
            inputs.lacks(audit.name, " and ".join(absent))
        else:
            found.append(audit)
    return found


# ---------------------------------------------------------------- running


def _findings(inputs: Inputs, audits: list[Audit], target: Path) -> tuple[DataFrame, list[Audit]]:
    """What the audits found, with causes, and those that could judge. Findings are put down first and
    explained together: words are made of what happened, which is the same for all of them."""
    if not audits:
        why = "; ".join(inputs.unjudged[:1]) or "the evidence has neither sends nor reads nor logs"
        raise PipelineError(f"there is nothing to judge: {why}")
    raw, table = target / _RAW, target / TABLE
    try:
        written = _write_each(inputs, audits, raw)
        judged = [audit for audit in audits if audit.name in written]
        if not judged:
            raise PipelineError(f"the evidence cannot be judged: {inputs.unjudged[-1]}")
        files = [str(path) for path in written.values() if path is not None]
        found = inputs.spark.read.schema(ANOMALIES).parquet(*files) if files else None
        explained = explain(found or literal(inputs.spark, [], ANOMALIES), inputs)
        explained.write.mode("overwrite").parquet(str(table))
    finally:
        shutil.rmtree(raw, ignore_errors=True)
    return inputs.spark.read.schema(EXPLAINED).parquet(str(table)), judged


def _write_each(inputs: Inputs, audits: list[Audit], raw: Path) -> dict[str, Path | None]:
    """The findings of each audit that could judge, by its name; None: there is nothing to find. Some audits
    run beside each other: while one is planned, another is carried out."""

    def run(audit: Audit) -> Path | None:
        found = audit.find(inputs)
        if found is None:
            return None
        path = raw / audit.name.replace(" ", "-")
        found.write.mode("overwrite").parquet(str(path))
        return path

    written: dict[str, Path | None] = {}
    pool = ThreadPoolExecutor(_BESIDE_EACH_OTHER, thread_name_prefix="audit")
    try:
        for audit, running in [(audit, pool.submit(run, audit)) for audit in audits]:
            try:
                written[audit.name] = running.result()
            except Exception as error:
                if _is_about_writing(raw.parent):
                    raise PipelineError(f"{raw.parent} cannot be written: {first_line(error)}") from error
                inputs.lacks(audit.name, first_line(error))
    except BaseException:
        # Whoever gives up, or was interrupted, does not wait for what is still going on.
        pool.shutdown(wait=False, cancel_futures=True)
        with suppress(Exception):
            inputs.spark.interruptAll()
        raise
    finally:
        pool.shutdown()
    return written


def _is_about_writing(target: Path) -> bool:
    existing = target if target.exists() else target.parent
    return not os.access(existing, os.W_OK)


# ---------------------------------------------------------------- summing up


def _sum_up(verdict: Verdict, table: DataFrame) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    verdict.counts = {name: {VIOLATION: 0, NOTICE: 0} for name in verdict.judged}
    grouped = table.groupBy("anomaly", "severity", "rule", "explained").count()
    for row in grouped.orderBy(f.desc("count"), "anomaly", "rule").collect():
        cause = row.asDict()
        verdict.causes.append(cause)
        counts = verdict.counts.setdefault(cause["anomaly"], {VIOLATION: 0, NOTICE: 0})
        counts[cause["severity"]] = counts.get(cause["severity"], 0) + cause["count"]
    order = (f.desc("severity"), "time_us", "topic", "partition", "offset", "value", "consumer")
    number = f.row_number().over(Window.partitionBy("anomaly").orderBy(*order))
    shown = (
        table.withColumn("number", number).where(f.col("number") <= EXAMPLES_MAX).orderBy("anomaly", "number")
    )
    for row in shown.collect():
        example = {k: v for k, v in row.asDict().items() if v is not None and k not in ("number", "anomaly")}
        verdict.examples.setdefault(row["anomaly"], []).append(example)


def _write_json(target: Path, verdict: Verdict) -> None:
    path = target / FILE
    try:
        target.mkdir(parents=True, exist_ok=True)
        text = json.dumps(verdict.as_json(), indent=2, ensure_ascii=False) + "\n"
        write_synced(path, text.encode())
    except OSError as error:
        raise PipelineError(f"{path}: {(error.strerror or str(error)).lower()}") from None
