"""The verdict: what was found, what it is based on, and what could not be judged.

Rules of the file:

* *Held* means that no violation was found. It is *conclusive* only if losses could be judged at all, in every
  partition that acknowledged something.
* All findings are in the table `EVIDENCE/audit/anomalies`; `EVIDENCE/audit/verdict.json` holds sums of them
  and a bounded number of examples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidelog.errors import reason
from tidelog.narrate.phrasebook import Phrase, say
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Tally
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place

TABLE: Final = "anomalies"
FILE: Final = "verdict.json"


@dataclass(slots=True)
class Verdict:
    stage: str
    state: str
    generation: str
    judged: list[str] = field(default_factory=list)
    """The audits that ran."""
    unjudged: list[str] = field(default_factory=list)
    """What could not be judged, and why."""
    not_judged: list[dict[str, Any]] = field(default_factory=list)
    """The same as phrases."""
    unreadable: list[str] = field(default_factory=list)
    """Records that exist and could not be read, and why: without them nothing is conclusive."""
    totals: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many of each anomaly, by severity; audits that ran and found nothing have zeros."""
    causes: list[dict[str, Any]] = field(default_factory=list)
    """anomaly, severity, rule, explained, count: the most frequent first."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Up to 20 of each anomaly, with their causes, and at least one of each cause: violations first, then by
    time."""

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
        return not self.held or ("lost" in self.judged and not self.unreadable)

    @property
    def unexplained(self) -> int:
        return sum(cause["count"] for cause in self.causes if not cause["explained"])

    def could_not_judge(self, unjudged: Sequence[Phrase], unreadable: Sequence[Phrase]) -> None:
        self.unjudged, self.unreadable = list(map(say, unjudged)), list(map(say, unreadable))
        self.not_judged = [said.as_json() for said in unjudged]

    def sum_up(self, tally: Tally) -> None:
        self.counts = {name: {VIOLATION: 0, NOTICE: 0} for name in self.judged}
        listed = sorted(tally.causes.items(), key=lambda item: (-item[1], item[0][0], item[0][2], item[0][1]))
        for (anomaly, severity, rule, explained), count in listed:
            self.causes.append(
                {
                    "anomaly": anomaly,
                    "severity": severity,
                    "rule": rule,
                    "explained": explained,
                    "count": count,
                }
            )
            counts = self.counts.setdefault(anomaly, {VIOLATION: 0, NOTICE: 0})
            counts[severity] += count
        self.examples = tally.shown()

    def as_json(self) -> dict[str, Any]:
        return {
            "held": self.held,
            "conclusive": self.conclusive,
            "violations": self.violations,
            "notices": self.notices,
            "unexplained": self.unexplained,
            **asdict(self),
        }

    def write(self, target: Place) -> None:
        text = json.dumps(self.as_json(), indent=2, ensure_ascii=False) + "\n"
        try:
            target.write(FILE, text.encode())
        except OSError as error:
            raise PipelineError(f"{target}/{FILE}: {reason(error)}") from None
