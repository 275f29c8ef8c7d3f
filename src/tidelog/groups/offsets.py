"""Committed offsets of a group: commit, fetch, delete, expire.

A commit succeeds once its record is committed to the log: every later coordinator then has it. Members commit
with their id and generation, so that a removed member cannot overwrite newer offsets. A group without members
accepts commits that name no generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.core.effects import ReplyTo
from tidelog.core.types import Millis, TopicPartition
from tidelog.groups.context import GroupContext
from tidelog.groups.group import Group, State
from tidelog.groups.membership import Membership
from tidelog.groups.messages import (
    NO_POSITION,
    CommitRequest,
    CommitResponse,
    ForgetRequest,
    ForgetResponse,
    Position,
    PositionsRequest,
    PositionsResponse,
)
from tidelog.groups.records import TEXT_BYTES_MAX, CommittedPosition, position_entry
from tidelog.groups.subscription import CONSUMER
from tidelog.groups.write_errors import of_commit
from tidelog.wire.errors import ErrorCode


class Offsets:
    __slots__ = ("_ctx", "_membership")

    def __init__(self, ctx: GroupContext, membership: Membership) -> None:
        self._ctx = ctx
        self._membership = membership

    # ------------------------------------------------------------ commit

    def commit(self, group: Group, request: CommitRequest, to: ReplyTo) -> None:
        error = self._commit_error(group, request)
        if error is not ErrorCode.NONE:
            self._ctx.answer(to, CommitResponse(dict.fromkeys(request.positions, error)))
            return
        errors: dict[TopicPartition, ErrorCode] = {}
        taken: dict[TopicPartition, CommittedPosition] = {}
        time_of_day = self._ctx.time_of_day()
        for tp, position in request.positions.items():
            fits = self._metadata_fits(position)
            errors[tp] = ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE
            if fits:
                taken[tp] = CommittedPosition(position, time_of_day)
        if not taken:
            self._ctx.answer(to, CommitResponse(errors))
            return
        group.pending_positions.update(taken.keys())
        entries = tuple(position_entry(group.id, tp, committed) for tp, committed in taken.items())
        self._ctx.write(entries, partial(self._committed, group, taken, errors, to))

    def _commit_error(self, group: Group, request: CommitRequest) -> ErrorCode:
        if group.is_fenced(request.member_id, request.instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if request.generation < 0 and group.state is State.EMPTY:
            return ErrorCode.NONE  # a consumer without a membership (`assign`), or a tool
        member = group.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._membership.touch(group, member)
        # The member has not received its assignment of the new generation yet.
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING else ErrorCode.NONE

    def _metadata_fits(self, position: Position) -> bool:
        text = position.metadata
        return len(text) <= self._ctx.config.metadata_length_max and len(text.encode()) <= TEXT_BYTES_MAX

    def _committed(
        self,
        group: Group,
        taken: dict[TopicPartition, CommittedPosition],
        errors: dict[TopicPartition, ErrorCode],
        to: ReplyTo,
        error: ErrorCode,
    ) -> None:
        for tp, committed in taken.items():
            group.pending_positions[tp] -= 1
            if not group.pending_positions[tp]:
                del group.pending_positions[tp]
            if error is ErrorCode.NONE:
                group.positions[tp] = committed
        if error is ErrorCode.NONE:
            self._ctx.tally.commits += len(taken) == len(errors)
            self._ctx.tally.positions += len(taken)
        code = of_commit(error)
        self._ctx.answer(to, CommitResponse({tp: code if tp in taken else errors[tp] for tp in errors}))

    # ------------------------------------------------------------ fetch

    @staticmethod
    def fetch(group: Group | None, request: PositionsRequest) -> PositionsResponse:
        """An unknown group has no committed offsets, which is not an error."""
        known = {} if group is None else group.positions
        asked: Iterable[TopicPartition] = known if request.partitions is None else request.partitions
        return PositionsResponse(
            ErrorCode.NONE, {tp: known[tp].position if tp in known else NO_POSITION for tp in asked}
        )

    # ------------------------------------------------------------ delete

    def forget(self, group: Group, request: ForgetRequest, to: ReplyTo) -> None:
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
            self._ctx.answer(to, ForgetResponse(ErrorCode.NON_EMPTY_GROUP))
            return
        in_use = group.state is not State.EMPTY
        errors: dict[TopicPartition, ErrorCode] = {}
        for tp in request.partitions:
            subscribed = in_use and group.is_subscribed_to(tp.topic)
            errors[tp] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        gone = [tp for tp in errors if errors[tp] is ErrorCode.NONE and self._is_known(group, tp)]
        if not gone:
            self._ctx.answer(to, ForgetResponse(ErrorCode.NONE, errors))
            return
        then = partial(self._forgotten, group, gone, errors, to)
        self._ctx.write(tuple(position_entry(group.id, tp, None) for tp in gone), then)

    @staticmethod
    def _is_known(group: Group, tp: TopicPartition) -> bool:
        return tp in group.positions or tp in group.pending_positions

    def _forgotten(
        self,
        group: Group,
        gone: list[TopicPartition],
        errors: dict[TopicPartition, ErrorCode],
        to: ReplyTo,
        error: ErrorCode,
    ) -> None:
        if error is not ErrorCode.NONE:
            self._ctx.answer(to, ForgetResponse(of_commit(error)))
            return
        for tp in gone:
            group.positions.pop(tp, None)
        self._ctx.answer(to, ForgetResponse(ErrorCode.NONE, errors))

    # ------------------------------------------------------------ expiry

    def expired(self, group: Group, time_of_day: Millis) -> list[TopicPartition]:
        """The offsets that are unused for ``retention_ms``: since the group became empty, or since the commit
        for topics that no member subscribes to and for groups that never had members."""
        if group.state is State.EMPTY:
            since = group.since if group.protocol_type is not None else -1
            candidates = list(group.positions)
        elif group.state is State.STABLE and group.protocol_type == CONSUMER:
            since = -1
            candidates = [tp for tp in group.positions if not group.is_subscribed_to(tp.topic)]
        else:
            return []
        retention = self._ctx.config.retention_ms
        return [
            tp
            for tp in candidates
            if tp not in group.pending_positions
            and time_of_day >= _expiry(group.positions[tp], since, retention)
        ]

    def drop(self, group: Group, tps: list[TopicPartition]) -> None:
        """Write tombstones, and drop the offsets when they are committed."""

        def then(error: ErrorCode) -> None:
            for tp in tps if error is ErrorCode.NONE else ():
                group.positions.pop(tp, None)

        self._ctx.write(tuple(position_entry(group.id, tp, None) for tp in tps), then)


def _expiry(committed: CommittedPosition, since: Millis, retention_ms: Millis) -> Millis:
    if committed.expires_at >= 0:
        return committed.expires_at
    return (committed.committed_at if since < 0 else since) + retention_ms
