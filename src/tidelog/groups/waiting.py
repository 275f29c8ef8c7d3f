"""Answer waiting members with an error."""

from __future__ import annotations

from tidelog.groups.context import GroupContext
from tidelog.groups.group import Member
from tidelog.groups.messages import JoinResponse, SyncResponse
from tidelog.wire.errors import ErrorCode


def fail_join(ctx: GroupContext, member: Member, error: ErrorCode) -> None:
    if member.awaits_join is not None:
        ctx.answer(member.awaits_join, JoinResponse(error, member.id))
        member.awaits_join = None


def fail_sync(ctx: GroupContext, member: Member, error: ErrorCode) -> None:
    if member.awaits_sync is not None:
        ctx.answer(member.awaits_sync, SyncResponse(error))
        member.awaits_sync = None
