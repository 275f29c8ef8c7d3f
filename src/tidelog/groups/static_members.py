"""A static member rejoins under a new member id (KIP-345): the old process is fenced, the group continues.

As long as the group is stable and nothing changes for the others, there is no rebalance: the new process gets
the assignment of the old one. The new id is written to the log first; otherwise the next coordinator would
fence the new process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tidelog.core.effects import ReplyTo
from tidelog.core.types import Millis
from tidelog.groups.context import GroupContext
from tidelog.groups.group import Group, Member, State
from tidelog.groups.messages import NO_MEMBER, JoinRequest, JoinResponse, ProtocolChoice
from tidelog.groups.records import group_entry
from tidelog.groups.subscription import subscribed_topics
from tidelog.groups.waiting import fail_join, fail_sync
from tidelog.groups.write_errors import of_group
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.groups.membership import Membership


@dataclass(slots=True, frozen=True)
class _Before:
    """The state to restore if the new id cannot be written."""

    member_id: str
    leader: str
    protocols: tuple[ProtocolChoice, ...]
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis


class StaticMembers:
    __slots__ = ("_ctx", "_membership")

    def __init__(self, ctx: GroupContext, membership: Membership) -> None:
        self._ctx = ctx
        self._membership = membership

    def replace(self, group: Group, request: JoinRequest, to: ReplyTo, new_id: str) -> None:
        member = group.members[group.static_ids[request.instance_id or ""]]
        before = _Before(
            member.id,
            group.leader or NO_MEMBER,
            member.protocols,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
        )
        fail_join(self._ctx, member, ErrorCode.FENCED_INSTANCE_ID)
        fail_sync(self._ctx, member, ErrorCode.FENCED_INSTANCE_ID)
        group.rename(member, new_id)
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.client_id, member.client_host = request.client_id, request.client_host
        member.awaits_join = to
        self._membership.touch(group, member)
        if group.state is State.STABLE and self._nothing_changes(group, member, before):
            assignments = {each.id: each.assignment for each in group.members.values()}
            entry = group_entry(group.id, group.stored(assignments, group.since))
            self._ctx.write((entry,), partial(self._written, group, member, to, before))
        else:
            self._membership.rebalance(group)

    @staticmethod
    def _nothing_changes(group: Group, member: Member, before: _Before) -> bool:
        """Whether the group would choose the same protocol, and the member subscribes to the same topics.
        (Other metadata may differ: a restarted member owns no partitions.)"""
        if group.chosen_protocol() != group.protocol:
            return False
        metadata = next((data for name, data in before.protocols if name == group.protocol), b"")
        return subscribed_topics([metadata]) == subscribed_topics([member.metadata_for(group.protocol)])

    def _written(self, group: Group, member: Member, to: ReplyTo, before: _Before, error: ErrorCode) -> None:
        if group.state is not State.STABLE or member.awaits_join is not to:
            return  # a rebalance has begun and will answer, or another process has taken the instance id
        member.awaits_join = None
        self._membership.touch(group, member)
        if error is ErrorCode.NONE:
            # Always name the previous leader: a member that sees itself as leader would send an assignment,
            # which a stable group ignores.
            self._ctx.answer(
                to,
                JoinResponse(
                    ErrorCode.NONE,
                    member.id,
                    group.generation,
                    group.protocol_type,
                    group.protocol,
                    before.leader,
                ),
            )
            return
        group.rename(member, before.member_id)
        member.protocols = before.protocols
        member.session_timeout_ms = before.session_timeout_ms
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        self._ctx.answer(to, JoinResponse(of_group(error), NO_MEMBER))
