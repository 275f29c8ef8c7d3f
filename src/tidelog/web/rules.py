"""The rule behind what happened in a step: the page explains the most telling one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, IsrChange, StateWriteReason, TruncationRule
from tidelog.scenario.clients.events import Acknowledged, SendFailed
from tidelog.wire.errors import ErrorCode


class Rule(StrEnum):
    """In the order of what they tell: the first one that a step has is shown. The words are narrate's."""

    TRUNCATE_TO_WATERMARK = "truncate_to_watermark"
    TRUNCATE_BY_EPOCH = "truncate_by_epoch"
    LEADER_IS_TRUTH = "leader_is_truth"
    UNCLEAN_ELECTION = "unclean_election"
    LAST_KNOWN_ELECTION = "last_known_election"
    ELIGIBLE_ELECTION = "eligible_election"
    MAJORITY_ELECTION = "majority_election"
    CLEAN_ELECTION = "clean_election"
    PREFERRED_ELECTION = "preferred_election"
    NO_LEADER = "no_leader"
    NO_LONGER_ELIGIBLE = "no_longer_eligible"
    DEAD_LEAVE_ISR = "dead_leave_isr"
    WRITTEN_BY_TOO_FEW = "written_by_too_few"
    TOO_FEW_IN_SYNC = "too_few_in_sync"
    ISR_SHRINKS = "isr_shrinks"
    ISR_GROWS = "isr_grows"
    NEW_CONTROLLER = "new_controller"
    FENCED = "fenced"
    MAJORITY_COMMITS = "majority_commits"
    ISR_COMMITS = "isr_commits"
    NO_ANSWER = "no_answer"
    ACKNOWLEDGED = "acknowledged"
    LEADER_BEGINS = "leader_begins"


_ORDER = list(Rule)


def most_telling(events: Iterable[object], *, commits_by_isr: bool) -> Rule | None:
    found = {rule for event in events if (rule := _rule(event, commits_by_isr)) is not None}
    return min(found, key=_ORDER.index, default=None)


def _rule(event: object, commits_by_isr: bool) -> Rule | None:
    match event:
        case e.Truncated():
            return _of_truncation(event.rule)
        case e.PartitionStateWritten():
            return _of_state(event.reason)
        case e.IsrChangeProposed():
            return Rule.ISR_GROWS if event.reason is IsrChange.CAUGHT_UP else Rule.ISR_SHRINKS
        case e.ElectionFailed():
            return Rule.NO_LEADER
        case e.ControllerElected():
            return Rule.NEW_CONTROLLER
        case e.FollowerStalled():
            return Rule.FENCED if event.error is ErrorCode.FENCED_LEADER_EPOCH else None
        case e.HighWatermarkAdvanced():
            return Rule.ISR_COMMITS if commits_by_isr else Rule.MAJORITY_COMMITS
        case SendFailed():
            if event.record.error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                return Rule.WRITTEN_BY_TOO_FEW
            too_few = event.record.error is ErrorCode.NOT_ENOUGH_REPLICAS
            return Rule.TOO_FEW_IN_SYNC if too_few else Rule.NO_ANSWER
        case Acknowledged():
            return Rule.ACKNOWLEDGED
        case e.BecameLeader():
            return Rule.LEADER_BEGINS
        case _:
            return None  # nothing to explain


def _of_truncation(rule: TruncationRule) -> Rule:
    match rule:
        case TruncationRule.OWN_HIGH_WATERMARK:
            return Rule.TRUNCATE_TO_WATERMARK
        case (
            TruncationRule.EPOCH_END_ON_LEADER | TruncationRule.EPOCH_END_HERE | TruncationRule.EPOCH_UNKNOWN
        ):
            return Rule.TRUNCATE_BY_EPOCH
        case TruncationRule.LEADER_LOG_SHORTER | TruncationRule.LEADER_LOG_STARTS_LATER:
            return Rule.LEADER_IS_TRUTH
    assert_never(rule)


def _of_state(reason: StateWriteReason | ElectionKind) -> Rule | None:
    match reason:
        case ElectionKind.CLEAN:
            return Rule.CLEAN_ELECTION
        case ElectionKind.UNCLEAN:
            return Rule.UNCLEAN_ELECTION
        case ElectionKind.PREFERRED:
            return Rule.PREFERRED_ELECTION
        case ElectionKind.ELIGIBLE:
            return Rule.ELIGIBLE_ELECTION
        case ElectionKind.LAST_KNOWN_LEADER:
            return Rule.LAST_KNOWN_ELECTION
        case StateWriteReason.UNCLEAN_SHUTDOWN:
            return Rule.NO_LONGER_ELIGIBLE
        case ElectionKind.MAJORITY:
            return Rule.MAJORITY_ELECTION
        case StateWriteReason.REPLICA_OFFLINE:
            return Rule.DEAD_LEAVE_ISR
        case (
            ElectionKind.CONTROLLED_SHUTDOWN
            | StateWriteReason.CREATED
            | StateWriteReason.ISR_ASKED
            | StateWriteReason.ISR_WRITTEN
            | StateWriteReason.BALLOT_OPENED
            | StateWriteReason.ELIGIBLE_CLEARED
            | StateWriteReason.REASSIGNED
            | ElectionKind.REASSIGNED
        ):
            return None
    assert_never(reason)
