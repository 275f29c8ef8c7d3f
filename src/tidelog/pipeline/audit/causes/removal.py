"""Why a record that was acknowledged or read is not where it was.

A record goes when a broker takes office whose log lacks it: from then on that log is the truth, and all
others cut off what it does not have. So the cause is told by the first leader elected after the
acknowledgement whose log ended at or before the record's offset, and by why it did:

* it had **cut the record off** itself, to its high watermark (before KIP-101) or to the end of an epoch;
* it had lost its **unsynced tail** in a power cut (recovery found the damage, or it had been counted in sync
  and came back without the record);
* it was **not in sync** and elected all the same (unclean);
* it had **not copied it yet**, which acks=1 does not wait for.

If no such broker was elected after the acknowledgement, the one that acknowledged it was no leader any more:
a **stale leader**, which cuts the record off when it learns of its successor.

Rules of the file: nothing is blamed that the evidence does not show. Another branch of the log is a cause
only if another record stands at the offset, of another epoch than the one that acknowledged; a truncation
only if it covers the offset; a power loss only of that broker, after the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidelog.core.events import ElectionKind, TruncationRule
from tidelog.pipeline.audit.causes.history import Commit, Cut, Death, Election, History, Repair
from tidelog.pipeline.audit.causes.rules import CauseRule, truncation_cause
from tidelog.pipeline.audit.causes.words import because, moment, told
from tidelog.pipeline.audit.findings import Facts, Finding

_NO_FACTS = Facts()
T = TypeVar("T")


@dataclass(slots=True)
class Removal:
    """What bears on the removal of one record."""

    taker: Election | None = None
    """The first to take office after it was known, without it."""
    incumbent: Election | None = None
    """The leader when it became known."""
    heir: Election | None = None
    """Who led the epoch of the other record that stands there."""
    taker_cut: Cut | None = None
    taker_repair: Repair | None = None
    taker_power: Death | None = None
    committed: Commit | None = None
    cut: Cut | None = None
    """Who else cut it off."""
    cut_term: Election | None = None
    """That broker's last term."""


def removal_of(finding: Finding, history: History, deaths: Sequence[Death]) -> Removal:
    """The happenings that bear on it. A finding without an offset or a time has none."""
    found = Removal()
    offset, since = finding.offset, finding.time_us
    known = since
    if finding.anomaly == "lost" and finding.until_us is not None:
        known = finding.until_us
    if since is None or known is None:
        return found
    elections = history.elections
    before = [e for e in elections if e.at_us <= known]
    found.incumbent = before[-1] if before else None
    if offset is None:
        return found
    found.taker = next((e for e in elections if e.at_us >= known and e.end <= offset), None)
    taker = found.taker
    if taker is not None:
        mine = [c for c in history.cuts if c.broker == taker.broker and c.covers(offset)]
        found.taker_cut = _last([c for c in mine if since <= c.at_us <= taker.at_us])
        found.taker_repair = _last(
            [
                r
                for r in history.repairs
                if r.broker == taker.broker and r.end <= offset and since <= r.at_us <= taker.at_us
            ]
        )
        found.taker_power = _last(
            [
                d
                for d in deaths
                if d.broker == taker.broker and d.kind == "power" and since <= d.at_us <= taker.at_us
            ]
        )
    found.committed = _last(
        [
            c
            for c in history.commits
            if c.from_offset <= offset < c.to_offset and (taker is None or c.epoch < taker.epoch)
        ]
    )
    found.cut = next((c for c in history.cuts if c.covers(offset) and c.at_us >= since), None)
    if found.cut is not None:
        cut = found.cut
        found.cut_term = _last([e for e in elections if e.broker == cut.broker and e.at_us <= cut.at_us])
    found.heir = _heir(finding.facts or _NO_FACTS, elections, found.incumbent, known)
    return found


def _heir(
    facts: Facts, elections: Sequence[Election], incumbent: Election | None, known: int
) -> Election | None:
    """The leader of the other record's epoch, if it is another term than the one that told of the record."""
    if not facts.other_there or incumbent is None:
        return None
    if facts.other_epoch is None:
        # Records without epochs (before KIP-101): the next that another broker led.
        return next((e for e in elections if e.at_us >= known and e.broker != incumbent.broker), None)
    if facts.other_epoch == incumbent.epoch:
        return None
    return next((e for e in elections if e.epoch == facts.other_epoch), None)


def _last(found: Sequence[T]) -> T | None:
    return found[-1] if found else None


def rule_of(finding: Finding, found: Removal) -> CauseRule | None:
    """The rule that removed the record; None if nothing shows one."""
    facts = finding.facts or _NO_FACTS
    if facts.uncommitted:
        return CauseRule.NOT_COMMITTED
    if finding.acks == 0 and finding.offset is None:
        return CauseRule.UNCONFIRMED
    if found.taker is not None:
        return _rule_of_taker(finding, found, found.taker)
    cut, incumbent = found.cut, found.incumbent
    if cut is not None and incumbent is not None and incumbent.broker != cut.broker:
        term = -1 if found.cut_term is None else found.cut_term.epoch
        if incumbent.epoch > term:
            return CauseRule.STALE
    if found.heir is not None:
        unclean = found.heir.rule == ElectionKind.UNCLEAN
        return CauseRule.UNCLEAN if unclean else CauseRule.OTHER_BRANCH
    if cut is not None:
        to_watermark = cut.rule == TruncationRule.OWN_HIGH_WATERMARK
        return CauseRule.TO_WATERMARK if to_watermark else CauseRule.OVERWRITTEN
    return None


def _rule_of_taker(finding: Finding, found: Removal, taker: Election) -> CauseRule:
    cut, committed = found.taker_cut, found.committed
    if cut is not None and cut.rule == TruncationRule.OWN_HIGH_WATERMARK:
        return CauseRule.TO_WATERMARK
    if found.taker_repair is not None or found.taker_power is not None:
        return CauseRule.UNSYNCED
    if cut is not None and cut.rule is not None:
        return truncation_cause(TruncationRule(cut.rule))
    if taker.rule == ElectionKind.UNCLEAN:
        alone = committed is not None and len(committed.isr) == 1
        return CauseRule.ONLY_ONE if alone else CauseRule.UNCLEAN
    if committed is not None and taker.broker in committed.isr:
        return CauseRule.UNSYNCED
    if committed is None or finding.acks == 1:
        return CauseRule.NOT_COPIED
    return CauseRule.OUT_OF_STEP


def words_of(finding: Finding, found: Removal, rule: CauseRule | None, began_us: int) -> str:
    """The story of the record."""

    def at(us: int | None) -> str | None:
        return moment(began_us, us)

    stale = rule is CauseRule.STALE
    name = " ".join(
        filter(
            None,
            (told("cause.offset", offset=finding.offset), told("cause.value", value=finding.value)),
        )
    )
    parts = [name, _known(finding, found, began_us, stale=stale)]
    if found.committed is not None:
        parts.append(told("cause.in_sync", isr=", ".join(map(str, found.committed.isr))))
    taker, cut, heir = found.taker, found.cut, found.heir
    if taker is not None:
        parts.append(_taker_log(found, taker, rule, began_us))
        parts.append(
            told("cause.elected", broker=taker.broker, epoch=taker.epoch, at=at(taker.at_us), end=taker.end)
            + because(taker.why)
        )
    if stale and found.incumbent is not None and cut is not None:
        led = found.incumbent
        parts.append(told("cause.led", broker=led.broker, epoch=led.epoch, since=at(led.at_us)))
        parts.append(
            told("cause.stale", broker=cut.broker, before=cut.before, after=cut.after, at=at(cut.at_us))
        )
    if taker is None and heir is not None and rule in (CauseRule.OTHER_BRANCH, CauseRule.UNCLEAN):
        other = told("cause.elected_other", broker=heir.broker, epoch=heir.epoch, at=at(heir.at_us))
        parts.append(other + because(heir.why))
    if taker is None and cut is not None and not stale:
        parts.append(_truncated(cut, began_us))
    if rule is CauseRule.NOT_COMMITTED:
        parts.append(told("cause.uncommitted"))
    if rule is CauseRule.UNCONFIRMED:
        parts.append(told("cause.unconfirmed"))
    return "".join(parts)


def _known(finding: Finding, found: Removal, began_us: int, *, stale: bool) -> str:
    """How the record came to be known."""
    if finding.consumer is not None:
        return told("cause.read", consumer=finding.consumer, at=moment(began_us, finding.time_us))
    if finding.anomaly != "lost":
        return told("cause.told", at=moment(began_us, finding.time_us))
    known = finding.time_us if finding.until_us is None else finding.until_us
    if found.incumbent is None or stale:
        return told("cause.acknowledged", at=moment(began_us, known))
    return told("cause.acknowledged_by", broker=found.incumbent.broker, at=moment(began_us, known))


def _taker_log(found: Removal, taker: Election, rule: CauseRule | None, began_us: int) -> str:
    """What had happened to the log of the one who took office."""
    if found.taker_cut is not None:
        return _truncated(found.taker_cut, began_us)
    repair, power = found.taker_repair, found.taker_power
    if repair is not None:
        when = moment(began_us, repair.at_us)
        return told("cause.damaged", broker=taker.broker, at=when, end=repair.end) + because(repair.why)
    if power is not None:
        return told("cause.lost_power", broker=taker.broker, at=moment(began_us, power.at_us))
    if rule is CauseRule.UNSYNCED:
        return told("cause.came_back_without", broker=taker.broker)
    return ""


def _truncated(cut: Cut, began_us: int) -> str:
    return told(
        "cause.truncated",
        broker=cut.broker,
        before=cut.before,
        after=cut.after,
        why=cut.why,
        at=moment(began_us, cut.at_us),
    )
