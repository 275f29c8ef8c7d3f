"""The verdict in plain sentences: for the top of the report, and for the command line.

Rules of the file: a sentence says how many of how many, and never more than was judged. "Every acknowledged
record is there" is said only if somebody could look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.evidence.folder import Manifest
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.findings import Finding, findings, totals
from tidelog.pipeline.report.scale import moment, number, plural

HELD: Final = "held"
VIOLATED: Final = "violated"
UNSAID: Final = "unsaid"

_LOST: Final = "lost"
_SAME_EVENT: Final = frozenset({_LOST, "rewritten", "inconsistent offset", "diverged", "missing copy"})
"""What one replaced record shows as: it is not counted once for each."""


@dataclass(slots=True, frozen=True)
class Headline:
    state: str
    """held, violated or unsaid."""
    text: str
    more: str


def headline(verdict: Mapping[str, Any], manifest: Manifest) -> Headline:
    """The verdict in one sentence, and a second one that says of how many."""
    broken = [finding for finding in findings(verdict) if finding.severity == VIOLATION]
    counts = totals(verdict)
    lost = next((finding for finding in broken if finding.anomaly == _LOST), None)
    if lost is not None:
        are = "is" if lost.count == 1 else "are"
        share = f"Of {number(counts.promised)} that were acknowledged, during {circumstances(manifest)}."
        also = _also(broken, lost)
        text = f"{plural(lost.count, 'acknowledged record')} {are} lost."
        return Headline(VIOLATED, text, share + also)
    if broken:
        # Whether anything is lost may be unknown: then nothing is said about it.
        looked = verdict.get("conclusive") and _LOST in (verdict.get("judged") or ())
        none = f"None of {plural(counts.promised, 'acknowledged record')} is lost, but"
        more = f"{none if looked else 'These'} promises were broken."
        first = broken[0]
        return Headline(VIOLATED, f"{first.words}.", more + _also(broken, first))
    if not counts.sends:
        return Headline(UNSAID, "There is nothing to judge.", "The ledger is empty: no send was recorded.")
    if not verdict.get("conclusive"):
        return Headline(
            UNSAID,
            "Whether a record was lost cannot be said.",
            "No broken promise was seen, but the evidence does not show what the log holds at the end.",
        )
    if not counts.promised:
        return Headline(
            UNSAID, "Nothing was acknowledged.", "So no promise could be broken, and none was tested."
        )
    return Headline(
        HELD,
        "Every acknowledged record is there.",
        f"All {number(counts.promised)} of them, after {circumstances(manifest)}.",
    )


def _also(broken: list[Finding], first: Finding) -> str:
    """What else was found; and what is the same event, seen from elsewhere."""
    rest = [finding for finding in broken if finding is not first]
    same = [finding for finding in rest if {finding.anomaly, first.anomaly} <= _SAME_EVENT]
    others = [finding for finding in rest if finding not in same]
    also = f" Also {_listed(others)}." if others else ""
    return also + (f" The same shows as {_listed(same)}." if same else "")


def _listed(found: list[Finding]) -> str:
    return ", ".join(finding.words for finding in found)


def circumstances(manifest: Manifest) -> str:
    """`60 s of load with 11 planned faults`: how many were done, the timeline knows."""
    load = f"{moment(load_ms(manifest))} of load"
    if not manifest.schedule:
        return load
    return f"{load} with {plural(len(manifest.schedule), 'planned fault')}"


def load_ms(manifest: Manifest) -> int:
    if manifest.load_started_us is None or manifest.load_ended_us is None:
        return 0
    return max((manifest.load_ended_us - manifest.load_started_us) // 1000, 0)


def settings_words(manifest: Manifest) -> list[str]:
    """Under which settings: the few that decide over losses."""
    words = []
    if manifest.stage == "foreign":
        words.append("a Kafka of yours")
    if manifest.generation:
        words.append(f"generation {manifest.generation}")
    if manifest.brokers:
        words.append(plural(len(manifest.brokers), "broker"))
    for topic in manifest.topics[:1]:
        if topic.get("replication_factor"):
            words.append(plural(int(topic["replication_factor"]), "replica"))
        configs = topic.get("configs") or {}
        if "min.insync.replicas" in configs:
            words.append(f"min.insync.replicas={configs['min.insync.replicas']}")
        if str(configs.get("unclean.leader.election.enable", "")).lower() == "true":
            words.append("unclean election allowed")
    acks = (manifest.settings.get("workload") or {}).get("acks") or ()
    if acks:
        words.append(f"acks={','.join('all' if ack == -1 else str(ack) for ack in acks)}")
    if manifest.stage == "sim":
        words.append("simulated")
    if manifest.seed is not None:
        words.append(f"seed {manifest.seed}")
    return words
