"""The membership of a group and its rebalance protocol: join, sync, heartbeat, leave.

    EMPTY ──join──▶ PREPARING ──all joined, or time is up──▶ COMPLETING ──assignment written──▶ STABLE
      ▲                 ▲  │                                     │                                 │
      └───no members────┼──┘                                     │                                 │
                        └──a member joins, leaves or expires─────┴─────────────────────────────────┘

Rules of this file, Kafka 2.7's:

* A join is answered when the group has a new generation, a sync when the leader's assignment is *committed*
  to the log: a coordinator that takes over knows every assignment that any member has seen.
* A member that waits for an answer of the coordinator counts as alive. A member that has not been in a
  generation cannot send heartbeats; its time-out is ``NEW_MEMBER_TIMEOUT_MS``.
* A dynamic member that has not rejoined in time is removed; a static one (KIP-345) stays until its session
  expires, so that a restart causes no rebalance. The last process that joins with an instance id owns it;
  others are fenced.
* A waiting member gets an error when its join or sync cannot complete any more. Each request is answered
  once.
"""

from __future__ import annotations

from functools import partial

from tidelog.core.effects import ReplyTo
from tidelog.core.types import Millis
from tidelog.groups.context import GroupContext
from tidelog.groups.group import Group, Member, State
from tidelog.groups.messages import (
    NO_MEMBER,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from tidelog.groups.records import group_entry, writable
from tidelog.groups.static_members import StaticMembers
from tidelog.groups.waiting import fail_join, fail_sync
from tidelog.groups.write_errors import of_group
from tidelog.wire.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS: Millis = 300_000
AWAITED_AGAIN_MS_MIN: Millis = 1_000
"""At least so long a group waits again for static members, of which none has rejoined."""
ID_PREFIX_LENGTH_MAX = 255
"""A member id begins with the client id, cut to this length."""


class Membership:
    __slots__ = ("_ctx", "_static")

    def __init__(self, ctx: GroupContext) -> None:
        self._ctx = ctx
        self._static = StaticMembers(ctx, self)

    # ------------------------------------------------------------ join

    def refusal(self, request: JoinRequest) -> ErrorCode:
        """Errors of a join request that do not depend on the group."""
        config = self._ctx.config
        if not config.session_timeout_ms_min <= request.session_timeout_ms <= config.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = (name for name, _ in request.protocols)
        if not writable((request.instance_id, request.client_id, request.protocol_type, *names)):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def join(self, group: Group, request: JoinRequest, to: ReplyTo) -> None:
        member = group.members.get(request.member_id)
        error = ErrorCode.NONE
        if not self._has_room(group, member):
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
            if member is not None:
                self.remove(group, member)
        elif not group.supports(request.protocol_type, request.protocols):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            self._ctx.answer(to, JoinResponse(error, request.member_id))
        elif request.member_id == NO_MEMBER:
            self._join_as_stranger(group, request, to)
        elif request.member_id in group.pending_ids and request.instance_id is None:
            self._add(group, request, to, request.member_id)
        else:
            self._join_again(group, member, request, to)
        self._complete_join_if_all_are_here(group)

    def _has_room(self, group: Group, member: Member | None) -> bool:
        most = self._ctx.config.members_max
        if group.state is State.PREPARING:
            waiting = sum(each.awaits_join is not None for each in group.members.values())
            return (member is not None and member.awaits_join is not None) or waiting < most
        return member is not None or len(group.members) < most

    def _join_as_stranger(self, group: Group, request: JoinRequest, to: ReplyTo) -> None:
        ctx = self._ctx
        prefix = request.client_id if request.instance_id is None else request.instance_id
        member_id = f"{prefix[:ID_PREFIX_LENGTH_MAX]}-{ctx.draw_id()}"
        if request.instance_id is not None and request.instance_id in group.static_ids:
            self._static.replace(group, request, to, member_id)
        elif request.instance_id is None and request.asks_for_id_first:
            give_up = partial(self._expire_pending, group, member_id)
            group.pending_ids[member_id] = ctx.set_timer(ctx.now + request.session_timeout_ms, give_up)
            ctx.answer(to, JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, to, member_id)

    def _add(self, group: Group, request: JoinRequest, to: ReplyTo, member_id: str) -> None:
        member = Member(
            member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        member.awaits_join = to
        group.end_pending_id(member_id)
        group.add(member, request.protocol_type)
        group.new_member_joined = True
        self.touch(group, member, NEW_MEMBER_TIMEOUT_MS)
        self.rebalance(group)

    def _join_again(self, group: Group, member: Member | None, request: JoinRequest, to: ReplyTo) -> None:
        if group.is_fenced(request.member_id, request.instance_id):
            self._ctx.answer(to, JoinResponse(ErrorCode.FENCED_INSTANCE_ID, request.member_id))
        elif member is None or (
            request.instance_id is not None and request.instance_id not in group.static_ids
        ):
            self._ctx.answer(to, JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        elif self._has_generation(group, member, request):
            self._ctx.answer(to, self._joined(group, member))
        else:
            fail_join(self._ctx, member, ErrorCode.REBALANCE_IN_PROGRESS)  # its own earlier attempt
            member.protocols = request.protocols
            member.session_timeout_ms = request.session_timeout_ms
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
            member.awaits_join = to
            self.rebalance(group)

    @staticmethod
    def _has_generation(group: Group, member: Member, request: JoinRequest) -> bool:
        """Whether a join only repeats one whose answer was lost. A leader that rejoins a stable group wants a
        new assignment, for example because topics have changed."""
        if member.protocols != request.protocols:
            return False
        return group.state is State.COMPLETING or (
            group.state is State.STABLE and group.leader != request.member_id
        )

    @staticmethod
    def _joined(group: Group, member: Member) -> JoinResponse:
        leads = group.leader == member.id
        return JoinResponse(
            ErrorCode.NONE,
            member.id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or NO_MEMBER,
            group.joined_members() if leads else (),
        )

    # ------------------------------------------------------------ rebalance

    def enter(self, group: Group, state: State) -> None:
        group.state = state
        group.since = self._ctx.time_of_day()

    def rebalance(self, group: Group) -> None:
        """Start a rebalance, in which all members must rejoin, unless one has begun already."""
        if group.state in (State.PREPARING, State.DEAD):
            return
        if group.state is State.COMPLETING:
            self._fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        was_empty = group.state is State.EMPTY
        self.enter(group, State.PREPARING)
        delay = self._ctx.config.initial_rebalance_delay_ms
        if not was_empty:
            self._await_joins(group)
            self._complete_join_if_all_are_here(group)
        elif delay == 0:
            self._complete_join(group)
        else:
            group.gathering = True
            self._gather(group, max(group.rebalance_timeout_ms - delay, 0), delay)

    def _gather(self, group: Group, remaining: Millis, delay: Millis) -> None:
        """Wait for ``delay``, and again while new members join and time is left."""
        group.new_member_joined = False
        look = partial(self._gathered, group, remaining)
        group.rebalance_timer = self._ctx.set_timer(self._ctx.now + delay, look)

    def _gathered(self, group: Group, remaining: Millis, _now: Millis) -> None:
        if group.new_member_joined and remaining:
            delay = min(self._ctx.config.initial_rebalance_delay_ms, remaining)
            self._gather(group, remaining - delay, delay)
        else:
            self._complete_join(group)

    def _await_joins(self, group: Group, at_least: Millis = 0) -> None:
        give_up = partial(self._joins_overdue, group)
        wait = max(group.rebalance_timeout_ms, at_least)
        group.rebalance_timer = self._ctx.set_timer(self._ctx.now + wait, give_up)

    def _joins_overdue(self, group: Group, _now: Millis) -> None:
        self._complete_join(group)

    def _complete_join_if_all_are_here(self, group: Group) -> None:
        if group.state is State.PREPARING and not group.gathering and group.all_joined:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        group.gathering = False
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
            group.rebalance_timer = None
        for member in list(group.members.values()):
            if member.awaits_join is None and member.instance_id is None:
                group.remove(member)
        if group.members and not self._leader_is_here(group):
            # Only static members are left, and none has rejoined yet. A client may choose a time-out of 0.
            self._await_joins(group, AWAITED_AGAIN_MS_MIN)
            return
        group.begin_generation()
        if not group.members:
            self._become_empty(group)
            return
        self._ctx.tally.rebalances += 1
        self.enter(group, State.COMPLETING)
        for member in group.members.values():
            if member.awaits_join is not None:
                self._ctx.answer(member.awaits_join, self._joined(group, member))
                member.awaits_join = None
            member.is_new = False
            self.touch(group, member)

    @staticmethod
    def _leader_is_here(group: Group) -> bool:
        leader = group.members.get(group.leader or NO_MEMBER)
        if leader is not None and leader.awaits_join is not None:
            return True
        here = next((member.id for member in group.members.values() if member.awaits_join is not None), None)
        if here is None:
            return False
        group.leader = here
        return True

    def _become_empty(self, group: Group) -> None:
        self.enter(group, State.EMPTY)
        # If this write fails, the next coordinator reads the old members and waits for their sessions to
        # expire.
        self._ctx.write((group_entry(group.id, group.stored({}, group.since)),), lambda _error: None)

    # ------------------------------------------------------------ sync

    def sync(self, group: Group, request: SyncRequest, to: ReplyTo) -> None:
        error = self._identity_error(group, request.member_id, request.instance_id, request.generation)
        if error is ErrorCode.NONE and (
            request.protocol_type not in (None, group.protocol_type)
            or request.protocol not in (None, group.protocol)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif error is ErrorCode.NONE and group.state is State.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            self._ctx.answer(to, SyncResponse(error))
            return
        member = group.members[request.member_id]
        if group.state is State.STABLE:
            self._ctx.answer(to, self._synced(group, member))
            self.touch(group, member)
            return
        fail_sync(self._ctx, member, ErrorCode.REBALANCE_IN_PROGRESS)  # its own earlier attempt
        member.awaits_sync = to
        # One assignment per generation: a leader that repeats its sync may send another assignment, but
        # members get the one that is being written, from this coordinator or the next.
        if group.leader == member.id and group.assigning != group.generation:
            self._assign(group, {id_: request.assignments.get(id_, b"") for id_ in group.members})

    def _assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        group.assigning = group.generation
        entry = group_entry(group.id, group.stored(assignments, self._ctx.time_of_day()))
        self._ctx.write((entry,), partial(self._assigned, group, group.generation, assignments))

    def _assigned(
        self, group: Group, generation: int, assignments: dict[str, bytes], error: ErrorCode
    ) -> None:
        if group.state is not State.COMPLETING or group.generation != generation:
            return  # another rebalance has begun and answered the waiting members
        if error is not ErrorCode.NONE:
            self._fail_syncs(group, of_group(error))
            self.rebalance(group)
            return
        self.enter(group, State.STABLE)
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
            if member.awaits_sync is not None:
                self._ctx.answer(member.awaits_sync, self._synced(group, member))
                member.awaits_sync = None
                self.touch(group, member)

    def _fail_syncs(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.awaits_sync is not None:
                fail_sync(self._ctx, member, error)
                self.touch(group, member)

    @staticmethod
    def _synced(group: Group, member: Member) -> SyncResponse:
        return SyncResponse(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)

    # ------------------------------------------------------------ heartbeats

    def heartbeat(self, group: Group, request: HeartbeatRequest) -> ErrorCode:
        error = self._identity_error(group, request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        self.touch(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE

    @staticmethod
    def _identity_error(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if group.is_fenced(member_id, instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION

    def touch(self, group: Group, member: Member, timeout_ms: Millis | None = None) -> None:
        """The member sent something: restart its session time-out."""
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline = self._ctx.now + timeout
        timer = member.session_timer
        if timer is None or member.deadline < timer.at:
            if timer is not None:
                timer.cancel()
            self._set_session_timer(group, member)

    def _set_session_timer(self, group: Group, member: Member) -> None:
        # One timer per member: when it fires it checks whether the deadline has moved.
        due = partial(self._session_due, group, member)
        member.session_timer = self._ctx.set_timer(member.deadline, due)

    def _session_due(self, group: Group, member: Member, now: Millis) -> None:
        member.session_timer = None
        if member.deadline > now:
            self._set_session_timer(group, member)
        elif member.is_new or (member.awaits_join is None and member.awaits_sync is None):
            self._ctx.tally.members_expired += 1
            self.remove(group, member)
        else:
            self.touch(group, member)  # it waits for the coordinator's answer

    def _expire_pending(self, group: Group, member_id: str, _now: Millis) -> None:
        del group.pending_ids[member_id]
        self._complete_join_if_all_are_here(group)

    # ------------------------------------------------------------ leaving

    def leave(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.instance_id
        if member_id != NO_MEMBER and group.is_fenced(member_id, instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if group.end_pending_id(member_id):
            self._complete_join_if_all_are_here(group)
            return ErrorCode.NONE
        if instance_id is not None and member_id == NO_MEMBER:
            member_id = group.static_ids.get(instance_id, NO_MEMBER)
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.remove(group, member)
        return ErrorCode.NONE

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member that left, expired, or exceeds the group's size."""
        fail_join(self._ctx, member, ErrorCode.UNKNOWN_MEMBER_ID)
        fail_sync(self._ctx, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member)
        self.rebalance(group)
        self._complete_join_if_all_are_here(group)

    # ------------------------------------------------------------ change of coordinator

    def take_over(self, group: Group) -> None:
        """Start the sessions of a group that was read from the log."""
        for member in group.members.values():
            self.touch(group, member)
        if len(group.members) > self._ctx.config.members_max:
            self.rebalance(group)

    def hand_over(self, group: Group) -> None:
        """Another broker coordinates now: answer all waiting members with NOT_COORDINATOR."""
        for member in group.members.values():
            fail_join(self._ctx, member, ErrorCode.NOT_COORDINATOR)
            fail_sync(self._ctx, member, ErrorCode.NOT_COORDINATOR)
