"""Audits of evidence in tests: by processes of this machine, without Java, unless a test is about Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.pipeline.audit.anomalies import AUDITS, Audit
from tidelog.pipeline.audit.engines import Engine
from tidelog.pipeline.audit.evidence import load
from tidelog.pipeline.audit.judging import judge
from tidelog.pipeline.audit.verdict import Verdict


def judge_evidence(path: Path, *, audits: Sequence[Audit] = AUDITS, engine: Engine | None = None) -> Verdict:
    return judge(load(path), engine, audits=audits).verdict


def found_rows(path: Path) -> list[dict[str, Any]]:
    """The table of findings."""
    return [
        row
        for file in sorted((path / "audit/anomalies").glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
