"""The verdict as the report reads it: what was found, grouped by cause. The one place that knows its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.narrate.phrasebook import ENGLISH, Phrase, Phrasebook
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION


@dataclass(slots=True)
class Cause:
    words: str
    rule: str
    count: int
    explained: bool = True
    examples: list[dict[str, Any]] = field(default_factory=list)
    story: list[Any] = field(default_factory=list)
    """The same as `words`, as phrases; empty in the verdict of an older version."""


@dataclass(slots=True)
class Finding:
    anomaly: str
    severity: str
    count: int
    causes: list[Cause] = field(default_factory=list)

    @property
    def words(self) -> str:
        """`137 acknowledged records lost`."""
        return self.said(ENGLISH)

    def said(self, book: Phrasebook) -> str:
        key = f"audit.{self.anomaly}"
        if key in book.templates:
            return book.say(Phrase(key, {"count": self.count}))
        return f"{self.count:,} {self.anomaly}"  # of another version's audit


@dataclass(slots=True, frozen=True)
class Totals:
    sends: int
    promised: int
    """Acknowledged with acks=1 or acks=all."""
    failed: int
    unknown: int
    reads: int
    faults: dict[str, int] | None
    """How many of each kind were done; None: a verdict of an older version does not say."""


def findings(verdict: Mapping[str, Any]) -> list[Finding]:
    """Violations first, in the order of the audits."""
    found = {
        (anomaly, severity): Finding(str(anomaly), severity, int(counts.get(severity) or 0))
        for severity in (VIOLATION, NOTICE)
        for anomaly, counts in (verdict.get("counts") or {}).items()
        if counts.get(severity)
    }
    for row in verdict.get("causes") or ():
        finding = found.get((row.get("anomaly"), row.get("severity")))
        if finding is not None:
            explained = bool(row.get("explained"))
            finding.causes.append(
                Cause("", str(row.get("rule") or ""), int(row.get("count") or 0), explained)
            )
    for anomaly, examples in (verdict.get("examples") or {}).items():
        for example in examples:
            finding = found.get((anomaly, example.get("severity")))
            if finding is not None:
                _add(finding, example)
    return list(found.values())


def _add(finding: Finding, example: Mapping[str, Any]) -> None:
    rule = str(example.get("rule") or "")
    cause = next((cause for cause in finding.causes if cause.rule == rule), None)
    if cause is None:
        cause = Cause("", rule, 0)
        finding.causes.append(cause)
    if not cause.words:
        cause.words = str(example.get("cause") or "")
        cause.story = example.get("story") or []
    cause.examples.append(dict(example))


def totals(verdict: Mapping[str, Any]) -> Totals:
    counts = verdict.get("totals") or {}
    sends = counts.get("sends") or {}
    by_acks = sends.get("by_acks") or {}
    ok = int(sends.get("ok") or 0)
    unpromised = int((by_acks.get("0") or {}).get("ok") or 0)
    failed, unknown = int(sends.get("failed") or 0), int(sends.get("unknown") or 0)
    return Totals(
        sends=int(sends.get("total") or ok + failed + unknown),
        promised=ok - unpromised,
        failed=failed,
        unknown=unknown,
        reads=sum(int(count or 0) for count in (counts.get("reads") or {}).values()),
        faults=counts.get("faults"),
    )
