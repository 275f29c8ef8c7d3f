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
from tidelog.narrate.phrasebook import ENGLISH, Phrase, Phrasebook
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.findings import Finding, Totals, findings, totals

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


def headline(verdict: Mapping[str, Any], manifest: Manifest, book: Phrasebook = ENGLISH) -> Headline:
    """The verdict in one sentence, and a second one that says of how many."""
    broken = [finding for finding in findings(verdict) if finding.severity == VIOLATION]
    counts = totals(verdict)
    where = {"promised": number(counts.promised), "circumstances": circumstances(counts, manifest, book)}
    lost = next((finding for finding in broken if finding.anomaly == _LOST), None)
    if lost is not None:
        text = _said(book, "audit.is_lost", count=lost.count)
        return Headline(
            VIOLATED, text, _said(book, "audit.of_acknowledged", **where) + _also(broken, lost, book)
        )
    if broken:
        # Whether anything is lost may be unknown: then nothing is said about it.
        looked = verdict.get("conclusive") and _LOST in (verdict.get("judged") or ())
        more = _said(book, "audit.none_lost" if looked else "audit.promises_broken", count=counts.promised)
        text = _said(book, "audit.broken", found=broken[0].said(book))
        return Headline(VIOLATED, text, more + _also(broken, broken[0], book))
    compared = _compared(verdict, manifest, book)
    if compared is not None:
        return compared
    if not counts.sends:
        return Headline(UNSAID, _said(book, "audit.no_sends"), _said(book, "audit.no_sends_more"))
    if not verdict.get("conclusive"):
        return Headline(UNSAID, _said(book, "audit.inconclusive"), _said(book, "audit.inconclusive_more"))
    if not counts.promised:
        text, more = _said(book, "audit.no_acknowledgement"), _said(book, "audit.no_acknowledgement_more")
        return Headline(UNSAID, text, more)
    return Headline(HELD, _said(book, "audit.all_there"), _said(book, "audit.all_there_more", **where))


def _compared(verdict: Mapping[str, Any], manifest: Manifest, book: Phrasebook) -> Headline | None:
    """What is said where there is no ledger, but logs that were compared."""
    judged = _COMPARED in (verdict.get("judged") or ()) and not verdict.get("unreadable")
    if manifest.keeps_ledger or not judged:
        return None
    records = (verdict.get("totals") or {}).get("records") or {}
    counted = number(sum(records.values()))
    if len(records) == 1:
        more = _said(book, "audit.log_whole_more", records=counted)
        return Headline(HELD, _said(book, "audit.log_whole"), more)
    more = _said(book, "audit.replicas_agree_more", records=counted, brokers=number(len(records)))
    return Headline(HELD, _said(book, "audit.replicas_agree"), more)


def _said(book: Phrasebook, key: str, **fields: str | int) -> str:
    return book.say(Phrase(key, fields))


def _also(broken: list[Finding], first: Finding, book: Phrasebook) -> str:
    """What else was found; and what is the same event, seen from elsewhere."""
    rest = [finding for finding in broken if finding is not first]
    same = [finding for finding in rest if {finding.anomaly, first.anomaly} <= _SAME_EVENT]
    others = [finding for finding in rest if finding not in same]
    also = _said(book, "audit.also", found=_listed(others, book)) if others else ""
    return also + (_said(book, "audit.same_event", found=_listed(same, book)) if same else "")


def _listed(found: list[Finding], book: Phrasebook) -> str:
    return ("、" if book.language == "zh" else ", ").join(finding.said(book) for finding in found)


def circumstances(counts: Totals, manifest: Manifest, book: Phrasebook = ENGLISH) -> str:
    """`60 s of load with 11 planned faults`, or with 10 of them."""
    load = _said(book, "audit.load", duration=moment(load_ms(manifest)))
    planned = len(manifest.schedule)
    if not planned:
        return load
    done = planned if counts.faults is None else sum(counts.faults.values())
    if done >= planned:
        return _said(book, "audit.load_with_faults", load=load, count=planned)
    return _said(book, "audit.load_with_some_faults", load=load, done=done, count=planned)


def load_ms(manifest: Manifest) -> int:
    if manifest.load_started_us is None or manifest.load_ended_us is None:
        return 0
    return max((manifest.load_ended_us - manifest.load_started_us) // 1000, 0)


def settings_words(manifest: Manifest, book: Phrasebook = ENGLISH) -> list[str]:
    """Under which settings: the few that decide over losses."""
    found = []
    if manifest.stage == "foreign":
        found.append(_said(book, "audit.existing_kafka"))
    if manifest.generation:
        found.append(_said(book, "audit.generation", generation=manifest.generation))
    if manifest.brokers:
        found.append(_said(book, "audit.brokers", count=len(manifest.brokers)))
    for topic in manifest.topics[:1]:
        if topic.get("replication_factor"):
            found.append(_said(book, "audit.replicas", count=int(topic["replication_factor"])))
        configs = topic.get("configs") or {}
        if "min.insync.replicas" in configs:
            found.append(f"min.insync.replicas={configs['min.insync.replicas']}")
        if str(configs.get("unclean.leader.election.enable", "")).lower() == "true":
            found.append(_said(book, "audit.unclean_allowed"))
    acks = (manifest.settings.get("workload") or {}).get("acks") or ()
    if acks:
        found.append(f"acks={','.join('all' if ack == -1 else str(ack) for ack in acks)}")
    if manifest.stage == "sim":
        found.append(_said(book, "audit.simulated"))
    if manifest.seed is not None:
        found.append(_said(book, "audit.seed", seed=manifest.seed))
    return found
