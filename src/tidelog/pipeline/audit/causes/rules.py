"""The causes of findings, by the names under which findings are counted, and how each is recognised: a table
of predicates over the happenings of a partition (`case`).

Rules of the file: a cause is recognised by what happened, never by the kind of finding alone, and never read
back from words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, assert_never

from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.pipeline.audit.causes.case import Case
from tidelog.pipeline.audit.causes.history import Cut, Election
from tidelog.pipeline.audit.findings import Circumstance


class CauseRule(StrEnum):
    """Values are written to verdicts: once released, a name keeps its meaning."""

    # Why a record is not where it was.
    TO_WATERMARK = "truncation to the high watermark"
    TO_EPOCH = "truncation to the end of an epoch"
    TO_LEADER = "truncation to the leader's log"
    UNSYNCED = "unsynced tail lost"
    UNCLEAN = "unclean election"
    ONLY_ONE = "the only in-sync replica died"
    LAST_KNOWN = "the last known leader was elected"
    NOT_COPIED = "not replicated yet when its leader was replaced"
    OUT_OF_STEP = "an in-sync replica without the record was elected"
    OTHER_BRANCH = "a replica with another record there was elected"
    STALE = "stale leader"
    OVERWRITTEN = "follower overwritten"
    NOT_COMMITTED = "above the high watermark at the end"
    UNCONFIRMED = "acks=0"

    # Everything else.
    RETRY_IN_EPOCH = "sent again after a lost answer"
    RETRY_ACROSS = "sent again after a change of leader"
    NEW_IDENTITY = "sent again under a new producer epoch"
    SENT_TWICE = "sent twice by its producers"
    NOT_CUT_YET = "a replica has not truncated yet"
    NEVER_CUT = "a replica was never made to truncate"
    KEPT_BY_WATERMARK = "truncation to the high watermark kept another record"
    KEPT_BY_EPOCH = "truncation to the end of an epoch kept another record"
    KEPT_BY_LEADER = "truncation to the leader's log kept another record"
    OVERTAKEN = "overtaken by later sends while it was sent again"
    PLACE_GONE = "the log was cut off behind the consumer"
    AFTER_APPEND = "refused after it was appended"
    TOO_FEW = "too few replicas in sync"
    NO_LEADER = "no leader"
    LEADER_DEAD = "the leader was down"
    SILENT = "nothing was acknowledged"
    ANSWER_LOST = "its answer was lost"
    MOVED_BY_GROUP = "its group may have moved the consumer"
    INTERLEAVED = "transactions interleave"
    STILL_OPEN = "its coordinator has not ended it yet"
    NO_MARKER = "its coordinator ended it without a marker"
    NO_COORDINATOR = "the log of its coordinator is not there"
    NOT_WHOLE = "replicas are cut off or damaged"
    NOT_IN_SYNC = "no replica in sync was available"


UNEXPLAINED = "unexplained"


def truncation_cause(rule: TruncationRule) -> CauseRule:
    """What removed a record that such a truncation cut off."""
    match rule:
        case TruncationRule.OWN_HIGH_WATERMARK:
            return CauseRule.TO_WATERMARK
        case (
            TruncationRule.EPOCH_END_ON_LEADER | TruncationRule.EPOCH_END_HERE | TruncationRule.EPOCH_UNKNOWN
        ):
            return CauseRule.TO_EPOCH
        case TruncationRule.LEADER_LOG_SHORTER | TruncationRule.LEADER_LOG_STARTS_LATER:
            return CauseRule.TO_LEADER
    assert_never(rule)


_KEPT = {
    CauseRule.TO_WATERMARK: CauseRule.KEPT_BY_WATERMARK,
    CauseRule.TO_EPOCH: CauseRule.KEPT_BY_EPOCH,
    CauseRule.TO_LEADER: CauseRule.KEPT_BY_LEADER,
}


def kept_cause(rule: TruncationRule) -> CauseRule:
    """What kept a record that such a truncation should have cut off."""
    return _KEPT[truncation_cause(rule)]


# ---------------------------------------------------------------- which rule accounts for a finding

Predicate = Callable[[Case], object]
Rule = CauseRule | Callable[[Case], CauseRule]
"""A rule, or what names it: some depend on how a log was truncated."""


def _to_watermark(cut: Cut | None) -> bool:
    return cut is not None and cut.rule == TruncationRule.OWN_HIGH_WATERMARK


def _is(circumstance: Circumstance) -> Predicate:
    return lambda c: c.finding.circumstance is circumstance


def _elected(taker: Election | None, kind: ElectionKind) -> bool:
    return taker is not None and taker.rule == kind


def _kept_by_cut(c: Case) -> bool:
    """Whether the replica truncated to a place behind the record that it should have cut off."""
    cut, writer = c.last_cut, c.writer
    return bool(cut and writer and cut.rule and cut.after > c.offset and cut.at_us >= writer.at_us)


def _cut_away(c: Case) -> bool:
    """Whether a truncation may have removed it: neither left it a hole, nor did its own leader write what is
    there now."""
    return bool(c.cut) and not c.facts.hole and not c.is_of_its_term


def _named(cut: Cut | None, name: Callable[[TruncationRule], CauseRule]) -> CauseRule:
    assert cut is not None
    assert cut.rule is not None
    return name(TruncationRule(cut.rule))


def _always(_: Case) -> bool:
    return True


_GONE: Final[tuple[tuple[Predicate, Rule], ...]] = (
    (lambda c: c.facts.uncommitted, CauseRule.NOT_COMMITTED),
    (lambda c: c.finding.acks == 0 and c.finding.offset is None, CauseRule.UNCONFIRMED),
    # The taker's log lacked it: it had cut it off, lost it with its power, or never had it.
    (lambda c: _to_watermark(c.taker_cut), CauseRule.TO_WATERMARK),
    (lambda c: c.taker_repair or c.taker_power, CauseRule.UNSYNCED),
    (lambda c: c.taker_cut and c.taker_cut.rule, lambda c: _named(c.taker_cut, truncation_cause)),
    (
        lambda c: _elected(c.taker, ElectionKind.UNCLEAN) and c.committed and len(c.committed.isr) == 1,
        CauseRule.ONLY_ONE,
    ),
    (lambda c: _elected(c.taker, ElectionKind.UNCLEAN) and c.was_held, CauseRule.UNCLEAN),
    (lambda c: _elected(c.taker, ElectionKind.LAST_KNOWN_LEADER), CauseRule.LAST_KNOWN),
    # It had the record when that was committed, and nothing shows how it lost it.
    (lambda c: c.taker_was_in_sync, CauseRule.OUT_OF_STEP),
    (lambda c: c.was_held and (c.committed is None or c.finding.acks == 1), CauseRule.NOT_COPIED),
    (lambda c: c.was_held, CauseRule.OUT_OF_STEP),
    # No broker took office without it: of the rest nothing holds if one did.
    (lambda c: c.was_stale, CauseRule.STALE),
    (lambda c: _elected(c.heir, ElectionKind.UNCLEAN), CauseRule.UNCLEAN),
    (lambda c: _elected(c.heir, ElectionKind.LAST_KNOWN_LEADER), CauseRule.LAST_KNOWN),
    (lambda c: c.heir, CauseRule.OTHER_BRANCH),
    (lambda c: _cut_away(c) and _to_watermark(c.cut), CauseRule.TO_WATERMARK),
    (_cut_away, CauseRule.OVERWRITTEN),
)
_MOVED: Final[tuple[tuple[Predicate, Rule], ...]] = (
    (lambda c: c.notice and _is(Circumstance.MOVED_BY_GROUP)(c), CauseRule.MOVED_BY_GROUP),
    (lambda c: c.notice, CauseRule.PLACE_GONE),
)
RULES: Final[Mapping[str, tuple[tuple[Predicate, Rule], ...]]] = {
    "lost": _GONE,
    "rewritten": _GONE,
    "inconsistent offset": _GONE,
    "duplicated": (
        (_is(Circumstance.NEW_IDENTITY), CauseRule.NEW_IDENTITY),
        (_is(Circumstance.SENT_TWICE), CauseRule.SENT_TWICE),
        (lambda c: c.change and c.is_repeat, CauseRule.RETRY_ACROSS),
        (lambda c: c.notice and c.is_repeat, CauseRule.RETRY_IN_EPOCH),
    ),
    "diverged": (
        (lambda c: c.notice, CauseRule.NOT_CUT_YET),
        (lambda c: c.is_of_another_term and c.lost_power, CauseRule.UNSYNCED),
        (lambda c: c.is_of_another_term and c.last_cut is None, CauseRule.NEVER_CUT),
        (lambda c: c.is_of_another_term and _kept_by_cut(c), lambda c: _named(c.last_cut, kept_cause)),
        (
            lambda c: c.is_of_another_term and c.last_cut and c.last_cut.covers(c.offset),
            CauseRule.OVERWRITTEN,
        ),
    ),
    "missing copy": (
        (
            lambda c: c.facts.at_end and c.last_cut and c.last_cut.covers(c.offset) and c.last_cut.rule,
            lambda c: _named(c.last_cut, truncation_cause),
        ),
    ),
    "reordered": (
        (lambda c: c.change and not c.facts.misplaced, CauseRule.RETRY_ACROSS),
        (lambda c: c.notice and not c.facts.misplaced, CauseRule.OVERTAKEN),
    ),
    "poll skip": _MOVED,
    "non-monotonic poll": (*_MOVED, (lambda c: c.place_gone, CauseRule.PLACE_GONE)),
    "aborted read": ((_is(Circumstance.REFUSED_AFTER_APPEND), CauseRule.AFTER_APPEND),),
    "acknowledged below promise": ((_always, CauseRule.TOO_FEW),),
    "unknown arrived": ((_always, CauseRule.ANSWER_LOST),),
    "write cycle": ((_always, CauseRule.INTERLEAVED),),
    "circular information": ((lambda c: c.notice, CauseRule.INTERLEAVED),),
    "too few copies": ((_always, CauseRule.NOT_WHOLE),),
    "unclean election": (
        (_is(Circumstance.LAST_KNOWN_LEADER), CauseRule.LAST_KNOWN),
        (_always, CauseRule.NOT_IN_SYNC),
    ),
    "hanging transaction": (
        (_is(Circumstance.TRANSACTION_OPEN), CauseRule.STILL_OPEN),
        (_is(Circumstance.TRANSACTION_HANGS), CauseRule.NO_MARKER),
        (_is(Circumstance.COORDINATOR_ABSENT), CauseRule.NO_COORDINATOR),
    ),
    "unavailable": (
        (_is(Circumstance.NO_LEADER), CauseRule.NO_LEADER),
        (_is(Circumstance.TOO_FEW_IN_SYNC), CauseRule.TOO_FEW),
        (_is(Circumstance.LEADER_DOWN), CauseRule.LEADER_DEAD),
        (_is(Circumstance.SILENCE), CauseRule.SILENT),
    ),
}
"""Of each anomaly, the first whose predicate holds; none: unexplained."""


def rule_of(case: Case) -> CauseRule | None:
    for holds, rule in RULES.get(case.finding.anomaly, ()):
        if holds(case):
            return rule if isinstance(rule, CauseRule) else rule(case)
    return None
