"""The coordinator of all groups in one partition of ``__consumer_offsets``: requests in, effects out.

It lives as long as one leadership of that partition. First the driver passes every record of the log to
``load`` and calls ``loaded``; until then requests are answered with COORDINATOR_LOAD_IN_PROGRESS. When
another broker leads, the driver calls ``hand_over`` and drops the coordinator. In between it calls
``receive`` for requests, ``written`` for completed writes, ``wake`` when time has passed, and executes
``effects`` after each call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tidelog.core.effects import ReplyTo
from tidelog.core.types import Millis
from tidelog.groups.context import Effect, GroupConfig, GroupContext, GroupCounts, Then
from tidelog.groups.group import Group, State
from tidelog.groups.membership import Membership
from tidelog.groups.messages import (
    NO_MEMBER,
    CommitRequest,
    DeleteRequest,
    DeleteResponse,
    DescribedMember,
    DescribeRequest,
    DescribeResponse,
    ForgetRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinRequest,
    LeaveRequest,
    LeaveResponse,
    ListedGroup,
    PositionsRequest,
    Request,
    SyncRequest,
    refusal,
)
from tidelog.groups.offsets import Offsets
from tidelog.groups.records import GroupRecord, PositionRecord, group_entry, position_entry, writable
from tidelog.groups.write_errors import of_group
from tidelog.wire.errors import ErrorCode

_MAY_BE_NAMELESS = (CommitRequest, PositionsRequest, DescribeRequest, DeleteRequest, ForgetRequest)
"""These requests may have an empty group name, as in Kafka: tools and consumers without a group send it."""


class Coordinator:
    __slots__ = ("_ctx", "_groups", "_loading", "_membership", "_offsets", "effects", "topics")

    def __init__(
        self,
        config: GroupConfig,
        time_of_day: Callable[[], Millis],
        draw_id: Callable[[], str],
        tally: GroupCounts | None = None,
    ) -> None:
        self._ctx = GroupContext(config, time_of_day, draw_id, tally or GroupCounts())
        self.effects: list[Effect] = self._ctx.effects
        self._membership = Membership(self._ctx)
        self._offsets = Offsets(self._ctx, self._membership)
        self._groups: dict[str, Group] = {}
        self._loading = True
        self.topics: set[str] = set()
        """Topics in which any group may have committed offsets. The broker compares them with the existing
        topics."""

    # ------------------------------------------------------------ the log

    def load(self, record: GroupRecord | PositionRecord) -> None:
        """Apply a record of the log. Records come in order; a later one replaces an earlier one."""
        group = self._groups.get(record.group)
        if group is None:
            group = self._groups[record.group] = Group(record.group)
        if isinstance(record, GroupRecord):
            if record.stored is None:
                positions = group.positions
                group = self._groups[record.group] = Group(record.group)
                group.positions = positions
            else:
                group.restore(record.stored)
        elif record.committed is None:
            group.positions.pop(record.tp, None)
        else:
            group.positions[record.tp] = record.committed
            self.topics.add(record.tp.topic)

    def loaded(self, now: Millis) -> None:
        self._ctx.now = now
        self._loading = False
        for group in list(self._groups.values()):
            if group.generation == 0 and not group.positions:
                del self._groups[group.id]  # the log has only tombstones of it
            else:
                self._membership.take_over(group)

    @property
    def loading(self) -> bool:
        return self._loading

    def hand_over(self) -> None:
        for group in self._groups.values():
            self._membership.hand_over(group)

    def written(self, number: int, error: ErrorCode, now: Millis) -> None:
        self._ctx.now = now
        self._ctx.written(number, error)

    def wake(self, now: Millis) -> None:
        self._ctx.now = now
        self._ctx.wake(now)

    # ------------------------------------------------------------ requests

    def receive(self, request: Request, to: ReplyTo, now: Millis) -> None:
        ctx = self._ctx
        ctx.now = now
        error = self._refusal(request)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and isinstance(request, HeartbeatRequest):
            # The sender may be a member. Membership is known only after loading.
            ctx.answer(to, HeartbeatResponse(ErrorCode.NONE))
            return
        if error is not ErrorCode.NONE:
            ctx.answer(to, refusal(request, error))
            return
        group = self._groups.get(request.group)
        if group is not None and group.state is State.DEAD:
            ctx.answer(to, refusal(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        match request:
            case JoinRequest():
                self._join(group, request, to)
            case LeaveRequest():
                ctx.answer(to, self._leave(group, request))
            case CommitRequest():
                self._commit(group, request, to)
            case PositionsRequest():
                ctx.answer(to, self._offsets.fetch(group, request))
            case DescribeRequest():
                ctx.answer(to, _described(group, request))
            case _ if group is None:
                ctx.answer(to, refusal(request, _unknown_group(request)))
            case SyncRequest():
                self._membership.sync(group, request, to)
            case HeartbeatRequest():
                ctx.answer(to, HeartbeatResponse(self._membership.heartbeat(group, request)))
            case ForgetRequest():
                self._offsets.forget(group, request, to)
            case DeleteRequest():
                self._delete(group, to)

    def _refusal(self, request: Request) -> ErrorCode:
        if name_is_illegal(request):
            return ErrorCode.INVALID_GROUP_ID
        if not self._loading:
            return ErrorCode.NONE
        if isinstance(request, SyncRequest):
            # The rebalance state is not in the log, so the member must join again.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
            group.since = self._ctx.time_of_day()
        return group

    def _join(self, group: Group | None, request: JoinRequest, to: ReplyTo) -> None:
        error = self._membership.refusal(request)
        if error is ErrorCode.NONE and group is None and request.member_id != NO_MEMBER:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE:
            self._membership.join(self._group(request.group), request, to)
        else:
            self._ctx.answer(to, refusal(request, error))

    def _leave(self, group: Group | None, request: LeaveRequest) -> LeaveResponse:
        if group is None:
            return LeaveResponse(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(request.members))
        return LeaveResponse(
            ErrorCode.NONE, tuple(self._membership.leave(group, member) for member in request.members)
        )

    def _commit(self, group: Group | None, request: CommitRequest, to: ReplyTo) -> None:
        if group is None and request.generation >= 0:
            # The group, and so this generation, does not exist.
            self._ctx.answer(to, refusal(request, ErrorCode.ILLEGAL_GENERATION))
        else:
            self.topics.update(tp.topic for tp in request.positions)
            self._offsets.commit(self._group(request.group), request, to)

    # ------------------------------------------------------------ groups

    def groups(self) -> Iterable[ListedGroup]:
        for group in self._groups.values():
            yield ListedGroup(group.id, group.protocol_type or "", group.state.value)

    def members_count(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    def _delete(self, group: Group, to: ReplyTo) -> None:
        if group.state is not State.EMPTY:
            self._ctx.answer(to, DeleteResponse(ErrorCode.NON_EMPTY_GROUP))
        else:
            self._delete_in_log(group, lambda error: self._ctx.answer(to, DeleteResponse(of_group(error))))

    def topics_deleted(self, topics: Collection[str], now: Millis) -> None:
        """Drop committed offsets of deleted topics. A new topic of the same name starts at 0."""
        self._ctx.now = now
        if self._loading:
            return
        forgotten = set(topics)
        for group in self._groups.values():
            tps = dict.fromkeys((*group.positions, *group.pending_positions))
            gone = [tp for tp in tps if tp.topic in topics]
            if gone and group.state is not State.DEAD:
                self._offsets.drop(group, gone)
                forgotten.difference_update(tp.topic for tp in gone)  # kept until the tombstones are written
        self.topics -= forgotten

    def _delete_in_log(self, group: Group, then: Then) -> None:
        """Delete an empty group and its committed offsets, in the log first. Until the write is committed the
        group is DEAD and requests get COORDINATOR_NOT_AVAILABLE."""
        group.state = State.DEAD
        tps = dict.fromkeys((*group.positions, *group.pending_positions))
        entries = [position_entry(group.id, tp, None) for tp in tps]

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                del self._groups[group.id]
            else:
                group.state = State.EMPTY
            then(error)

        self._ctx.write((*entries, group_entry(group.id, None)), written)

    def expire(self, now: Millis) -> None:
        """Delete committed offsets, and groups, whose retention time is over."""
        self._ctx.now = now
        if self._loading:
            return
        for group in list(self._groups.values()):
            expired = self._offsets.expired(group, self._ctx.time_of_day())
            nothing_left = len(expired) == len(group.positions) and not group.pending_positions
            over = group.state is State.EMPTY and nothing_left and not group.pending_ids
            if over and not expired and group.generation == 0:
                del self._groups[group.id]  # it had no generation, and the log has no record of it
            elif over:
                self._delete_in_log(group, lambda _error: None)
            elif expired:
                self._offsets.drop(group, expired)


def name_is_illegal(request: Request) -> bool:
    nameless = not request.group and not isinstance(request, _MAY_BE_NAMELESS)
    return nameless or not writable([request.group])


def _unknown_group(request: Request) -> ErrorCode:
    of_a_member = isinstance(request, SyncRequest | HeartbeatRequest)
    return ErrorCode.UNKNOWN_MEMBER_ID if of_a_member else ErrorCode.GROUP_ID_NOT_FOUND


def _described(group: Group | None, request: DescribeRequest) -> DescribeResponse:
    if group is None:
        return DescribeResponse(ErrorCode.NONE, request.group, State.DEAD.value)
    stable = group.state is State.STABLE
    members = tuple(
        DescribedMember(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            # Metadata of a member is meaningful only in a stable group.
            member.metadata_for(group.protocol) if stable else b"",
            member.assignment if stable else b"",
        )
        for member in group.members.values()
    )
    protocol = group.protocol or "" if stable else ""
    return DescribeResponse(
        ErrorCode.NONE, request.group, group.state.value, group.protocol_type or "", protocol, members
    )
