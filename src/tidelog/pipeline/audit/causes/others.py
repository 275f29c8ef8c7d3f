"""Why a record is duplicated, why replicas differ, why order or place changed: causes other than removal.

Rules of the file, as in `removal`: nothing is blamed that the evidence does not show. Replicas that differ
have a cause only if the record of the one is of another term than the one that wrote the offset in the final
log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.core.events import TruncationRule
from tidelog.pipeline.audit.causes.history import Cut, Death, Election, Fault, History
from tidelog.pipeline.audit.causes.rules import CauseRule, kept_cause, truncation_cause
from tidelog.pipeline.audit.causes.words import moment, told
from tidelog.pipeline.audit.findings import NOTICE, Circumstance, Facts, Finding

_NO_FACTS = Facts()
_WINDOWS = {
    Circumstance.NO_LEADER: CauseRule.NO_LEADER,
    Circumstance.TOO_FEW_IN_SYNC: CauseRule.TOO_FEW,
    Circumstance.LEADER_DOWN: CauseRule.LEADER_DEAD,
    Circumstance.SILENCE: CauseRule.SILENT,
}


@dataclass(slots=True)
class Circumstances:
    change: Election | None = None
    """The first to take office while a send waited."""
    writer: Election | None = None
    """The last leader whose term began at or before the offset: it wrote what stands there."""
    last_cut: Cut | None = None
    """How the replica that differs was last cut."""
    lost_power: Death | None = None
    """That replica's broker lost power after the record was committed."""
    fault: Fault | None = None
    """What was being done to the cluster at that time."""


def circumstances_of(
    finding: Finding, history: History, deaths: Sequence[Death], faults: Sequence[Fault]
) -> Circumstances:
    found = Circumstances()
    offset, time, until = finding.offset, finding.time_us, finding.until_us
    if time is not None:
        found.change = next(
            (e for e in history.elections if e.at_us >= time and (until is None or e.at_us <= until)), None
        )
        if finding.anomaly == "unavailable":
            behind = time if until is None else until
            found.fault = next(
                (f for f in faults if f.began_us <= behind and (f.ended_us is None or f.ended_us >= time)),
                None,
            )
    if offset is not None:
        begun = [e for e in history.elections if e.end <= offset]
        found.writer = begun[-1] if begun else None
        cuts = [c for c in history.cuts if c.broker == finding.broker]
        found.last_cut = cuts[-1] if cuts else None
        committed = [c.at_us for c in history.commits if c.from_offset <= offset < c.to_offset]
        if committed:
            since = min(committed)
            lost = [
                d for d in deaths if d.broker == finding.broker and d.kind == "power" and d.at_us >= since
            ]
            found.lost_power = lost[-1] if lost else None
    return found


def rule_of(finding: Finding, found: Circumstances, history: History) -> CauseRule | None:
    """The rule behind a finding; None if nothing shows one."""
    notice = finding.severity == NOTICE
    match finding.anomaly:
        case "duplicated":
            return _why_twice(finding, found, notice=notice)
        case "diverged":
            return CauseRule.NOT_CUT_YET if notice else _why_diverged(finding, found)
        case "missing copy":
            cut = found.last_cut
            covers = cut is not None and finding.offset is not None and cut.covers(finding.offset)
            return truncation_cause(TruncationRule(cut.rule)) if covers and cut and cut.rule else None
        case "reordered":
            if found.change is not None:
                return CauseRule.RETRY_ACROSS
            return CauseRule.OVERTAKEN if notice else None
        case "poll skip" | "non-monotonic poll":
            return _why_moved(finding, history, notice=notice)
        case "aborted read":
            refused = finding.circumstance is Circumstance.REFUSED_AFTER_APPEND
            return CauseRule.AFTER_APPEND if refused else None
        case "acknowledged below promise":
            return CauseRule.TOO_FEW
        case "unknown arrived":
            return CauseRule.ANSWER_LOST
        case "write cycle":
            return CauseRule.INTERLEAVED
        case "circular information":
            return CauseRule.INTERLEAVED if notice else None
        case "unavailable":
            return None if finding.circumstance is None else _WINDOWS.get(finding.circumstance)
    return None


def _why_twice(finding: Finding, found: Circumstances, *, notice: bool) -> CauseRule | None:
    if finding.circumstance is Circumstance.NEW_IDENTITY:
        return CauseRule.NEW_IDENTITY
    if finding.circumstance is Circumstance.SENT_TWICE:
        return CauseRule.SENT_TWICE
    if found.change is not None:
        return CauseRule.RETRY_ACROSS
    return CauseRule.RETRY_IN_EPOCH if notice else None


def _why_diverged(finding: Finding, found: Circumstances) -> CauseRule | None:
    facts, writer, cut = finding.facts or _NO_FACTS, found.writer, found.last_cut
    if writer is None or finding.offset is None:
        return None
    if facts.other_epoch is not None and facts.other_epoch == writer.epoch:
        return None  # it came from the very leader that wrote the other one
    if finding.broker == writer.broker:
        return None
    if found.lost_power is not None:
        return CauseRule.UNSYNCED
    if cut is None:
        return CauseRule.NEVER_CUT
    if cut.rule is not None and cut.after > finding.offset and cut.at_us >= writer.at_us:
        return kept_cause(TruncationRule(cut.rule))
    return CauseRule.OVERWRITTEN if cut.covers(finding.offset) else None


def _why_moved(finding: Finding, history: History, *, notice: bool) -> CauseRule | None:
    if notice:
        by_group = finding.circumstance is Circumstance.MOVED_BY_GROUP
        return CauseRule.MOVED_BY_GROUP if by_group else CauseRule.PLACE_GONE
    facts = finding.facts or _NO_FACTS
    offset, time, position = finding.offset, finding.time_us, facts.position
    if finding.anomaly == "poll skip" or offset is None or time is None or position is None:
        return None
    since = facts.since_us
    ends = [(c.at_us, c.after) for c in history.cuts] + [(e.at_us, e.end) for e in history.elections]
    for at, end in ends:
        if end <= offset and end < position and at <= time and (since is None or at >= since):
            return CauseRule.PLACE_GONE
    return None


def words_of(finding: Finding, found: Circumstances, rule: CauseRule | None, began_us: int) -> str:
    """The story of such a finding."""
    parts = [finding.detail or ""]
    match finding.anomaly:
        case "unavailable":
            parts.append(told("cause.since", at=moment(began_us, finding.time_us)))
            if found.fault is not None:
                at = moment(began_us, found.fault.began_us)
                parts.append(told("cause.fault", fault=found.fault.words, at=at))
        case "duplicated" | "reordered":
            change = found.change
            if change is not None and rule is not CauseRule.SENT_TWICE:
                at = moment(began_us, change.at_us)
                parts.append(told("cause.elected_meanwhile", broker=change.broker, epoch=change.epoch, at=at))
            if rule is CauseRule.NEW_IDENTITY:
                parts.append(told("cause.new_identity"))
            if finding.anomaly == "duplicated" and rule is CauseRule.RETRY_IN_EPOCH:
                parts.append(told("cause.sent_again"))
        case "diverged" | "missing copy":
            parts.append(_about_replica(finding, found, began_us))
    return "".join(parts)


def _about_replica(finding: Finding, found: Circumstances, began_us: int) -> str:
    writer, cut = found.writer, found.last_cut
    wrote = ""
    if writer is not None:
        since = moment(began_us, writer.at_us)
        wrote = told("cause.wrote", broker=writer.broker, epoch=writer.epoch, offset=writer.end, since=since)
    if cut is None:
        return wrote + told("cause.never_truncated", broker=finding.broker)
    return wrote + told(
        "cause.truncated_last",
        broker=finding.broker,
        before=cut.before,
        after=cut.after,
        why=cut.why,
        at=moment(began_us, cut.at_us),
    )
