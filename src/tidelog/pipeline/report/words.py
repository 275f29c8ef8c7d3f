"""The verdict in plain sentences: for the top of the report, and for the command line.

Rules of the file: a sentence says how many of how many, and never more than was judged. "Every acknowledged
record is there" is said only if the evidence shows the log. The words are narrate's, by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.evidence.folder import Manifest
from tidelog.narrate.numbers import moment, number
from tidelog.narrate.phrasebook import words
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.findings import Finding, findings, totals

HELD: Final = "held"
VIOLATED: Final = "violated"
UNSAID: Final = "unsaid"

_LOST: Final = "lost"
_COMPARED: Final = "diverged"
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
    where = {"promised": number(counts.promised), "circumstances": circumstances(manifest)}
    lost = next((finding for finding in broken if finding.anomaly == _LOST), None)
    if lost is not None:
        text, more = words("audit.is_lost", count=lost.count), words("audit.of_acknowledged", **where)
        return Headline(VIOLATED, text, more + _also(broken, lost))
    if broken:
        # Whether anything is lost may be unknown: then nothing is said about it.
        looked = verdict.get("conclusive") and _LOST in (verdict.get("judged") or ())
        more = words("audit.none_lost" if looked else "audit.promises_broken", count=counts.promised)
        return Headline(
            VIOLATED, words("audit.broken", found=broken[0].words), more + _also(broken, broken[0])
        )
    if not manifest.keeps_ledger and _COMPARED in (verdict.get("judged") or ()):
        records = (verdict.get("totals") or {}).get("records") or {}
        if not verdict.get("unreadable"):
            counted = number(sum(records.values()))
            if len(records) == 1:
                return Headline(
                    HELD, words("audit.log_whole"), words("audit.log_whole_more", records=counted)
                )
            more = words("audit.replicas_agree_more", records=counted, brokers=number(len(records)))
            return Headline(HELD, words("audit.replicas_agree"), more)
    if not counts.sends:
        return Headline(UNSAID, words("audit.no_sends"), words("audit.no_sends_more"))
    if not verdict.get("conclusive"):
        return Headline(UNSAID, words("audit.inconclusive"), words("audit.inconclusive_more"))
    if not counts.promised:
        return Headline(UNSAID, words("audit.no_acknowledgement"), words("audit.no_acknowledgement_more"))
    return Headline(HELD, words("audit.all_there"), words("audit.all_there_more", **where))


def _also(broken: list[Finding], first: Finding) -> str:
    """What else was found; and what is the same event, seen from elsewhere."""
    rest = [finding for finding in broken if finding is not first]
    same = [finding for finding in rest if {finding.anomaly, first.anomaly} <= _SAME_EVENT]
    others = [finding for finding in rest if finding not in same]
    also = words("audit.also", found=_listed(others)) if others else ""
    return also + (words("audit.same_event", found=_listed(same)) if same else "")


def _listed(found: list[Finding]) -> str:
    return ", ".join(finding.words for finding in found)


def circumstances(manifest: Manifest) -> str:
    """`60 s of load with 11 planned faults`: how many were done, the timeline knows."""
    load = words("audit.load", duration=moment(load_ms(manifest)))
    faults = len(manifest.schedule)
    return words("audit.load_with_faults", load=load, count=faults) if faults else load


def load_ms(manifest: Manifest) -> int:
    if manifest.load_started_us is None or manifest.load_ended_us is None:
        return 0
    return max((manifest.load_ended_us - manifest.load_started_us) // 1000, 0)


def settings_words(manifest: Manifest) -> list[str]:
    """Under which settings: the few that decide over losses."""
    found = []
    if manifest.stage == "foreign":
        found.append(words("audit.existing_kafka"))
    if manifest.generation:
        found.append(words("audit.generation", generation=manifest.generation))
    if manifest.brokers:
        found.append(words("audit.brokers", count=len(manifest.brokers)))
    for topic in manifest.topics[:1]:
        if topic.get("replication_factor"):
            found.append(words("audit.replicas", count=int(topic["replication_factor"])))
        configs = topic.get("configs") or {}
        if "min.insync.replicas" in configs:
            found.append(f"min.insync.replicas={configs['min.insync.replicas']}")
        if str(configs.get("unclean.leader.election.enable", "")).lower() == "true":
            found.append(words("audit.unclean_allowed"))
    acks = (manifest.settings.get("workload") or {}).get("acks") or ()
    if acks:
        found.append(f"acks={','.join('all' if ack == -1 else str(ack) for ack in acks)}")
    if manifest.stage == "sim":
        found.append(words("audit.simulated"))
    if manifest.seed is not None:
        found.append(words("audit.seed", seed=manifest.seed))
    return found
