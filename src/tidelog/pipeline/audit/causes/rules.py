"""The causes of findings, by the names under which findings are counted."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from tidelog.core.events import TruncationRule


class CauseRule(StrEnum):
    """Values are written to verdicts: once released, a name keeps its meaning."""

    # Why a record is not where it was.
    TO_WATERMARK = "truncation to the high watermark"
    TO_EPOCH = "truncation to the end of an epoch"
    TO_LEADER = "truncation to the leader's log"
    UNSYNCED = "unsynced tail lost"
    UNCLEAN = "unclean election"
    ONLY_ONE = "the only in-sync replica died"
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
