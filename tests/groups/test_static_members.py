"""Static members (KIP-345): a name that survives a process, and only one process at a time that has it."""

from __future__ import annotations

from tests.groups.desk import NONE, SESSION_MS, Desk

from tidelog.groups.membership import AWAITED_AGAIN_MS_MIN
from tidelog.wire.errors import ErrorCode


def test_a_restart_costs_no_rebalance() -> None:
    """The new process is given the old one's assignment under a new id; the others notice nothing."""
    desk = Desk()
    other, old = desk.form("a", "b")
    new = desk.joined(desk.join(instance="b"))
    assert new.member_id != old.member_id
    assert new.generation == old.generation
    assert desk.state == "Stable"
    assert desk.answers[desk.sync(new, instance_id="b")].assignment == b"1"
    assert desk.heartbeat(other, "a") is NONE


def test_a_leader_that_restarts_does_not_lead_by_the_answer() -> None:
    """It gets the leader's old id; otherwise it would send an assignment that is ignored."""
    desk = Desk()
    old = desk.form("a")[0]
    new = desk.joined(desk.join(instance="a"))
    assert new.leader == old.member_id != new.member_id
    assert new.members == ()
    assert desk.joined(desk.join(new.member_id, instance="a")).leader == new.member_id  # a real rejoin


def test_the_former_process_is_fenced() -> None:
    """Heartbeat, sync, commit, join and leave under the old id: all refused, nothing changed."""
    desk = Desk()
    old = desk.form("a")[0]
    new = desk.joined(desk.join(instance="a"))
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(old, "a") is fenced
    assert desk.answers[desk.sync(old, instance_id="a")].error is fenced
    assert desk.answers[desk.join(old.member_id, instance="a")].error is fenced
    assert desk.leave(old.member_id, "a") is fenced
    assert desk.committed(desk.commit(5, old, instance_id="a")) is fenced
    assert desk.position() == -1
    assert desk.heartbeat(new, "a") is NONE


def test_a_waiting_process_is_fenced() -> None:
    """A join that waits is answered when another process takes its name."""
    desk = Desk()
    first, second = desk.form("a", "b")
    waiting = desk.join(second.member_id, instance="b", protocols=(("range", b"changed"),))
    newer = desk.join(instance="b", protocols=(("range", b"changed"),))
    assert desk.answers[waiting].error is ErrorCode.FENCED_INSTANCE_ID
    desk.join(first.member_id, instance="a")
    assert desk.joined(newer).generation == second.generation + 1


def test_a_process_that_waits_for_its_share_is_fenced() -> None:
    """So is a sync that waits."""
    desk = Desk()
    first, second = desk.form("a", "b")
    again = desk.join(first.member_id, instance="a")
    waiting = desk.sync(desk.joined(desk.join(second.member_id, instance="b")), instance_id="b")
    assert desk.joined(again).generation == first.generation + 1
    desk.join(instance="b")
    assert desk.answers[waiting].error is ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_while_the_new_id_is_written() -> None:
    """The new process is answered once, by the rebalance."""
    desk = Desk()
    first, second = desk.form("a", "b")
    desk.held = []
    returning = desk.join(instance="b")
    newcomer = desk.join()
    desk.commit_held()
    assert returning not in desk.answers
    desk.join(first.member_id, instance="a")
    assert desk.joined(returning).generation == desk.joined(newcomer).generation == second.generation + 1


def test_other_topics_mean_a_rebalance() -> None:
    """A process that comes back with another subscription does not just get the old assignment."""
    desk = Desk()
    desk.form("a")
    again = desk.joined(desk.join(instance="a", protocols=(("range", b"\0\0\0\0\0\1\0\1u"),)))
    assert again.generation == 2
    assert desk.state == "CompletingRebalance"


def test_static_members_are_missed_only_by_their_session() -> None:
    """A static member that does not join again stays, until its session is over."""
    desk = Desk()
    away, here = desk.form("a", "b")
    rebalancing = desk.join(here.member_id, instance="b", protocols=(("range", b"changed"),))
    desk.pass_time(SESSION_MS - 1)
    assert len(desk.describe().members) == 2
    assert rebalancing not in desk.answers
    desk.pass_time(1)
    joined = desk.joined(rebalancing)
    assert [member.instance_id for member in joined.members] == ["b"]
    assert desk.heartbeat(away, "a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_want_no_time_to_rejoin() -> None:
    """A client chooses how long a rebalance may take: with 0 the coordinator looks now and then, not all the
    time, until a member is back or its session is over."""
    desk = Desk()
    away = desk.joined(desk.join(instance="a", rebalance_timeout_ms=0))
    desk.sync(away, instance_id="a")
    other = desk.join(rebalance_timeout_ms=0)
    desk.pass_time(1)
    desk.leave(desk.joined(other).member_id)
    looked = 0
    while desk.state == "PreparingRebalance":
        assert desk.wake_at is not None
        desk.pass_time(max(desk.wake_at - desk.now, 0))
        looked += 1
    assert looked <= SESSION_MS // AWAITED_AGAIN_MS_MIN + 1
    assert desk.heartbeat(away, "a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_one_by_name() -> None:
    """Without its member id, which only the process knows."""
    desk = Desk()
    desk.form("a", "b")
    assert desk.leave("", "a") is NONE
    assert desk.leave("", "a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.instance_id for member in desk.describe().members] == ["b"]


def test_a_new_id_that_cannot_be_written() -> None:
    """The old process keeps the instance id, and the new one gets an error."""
    desk = Desk()
    old = desk.form("a")[0]
    desk.failing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert desk.answers[desk.join(instance="a")].error is ErrorCode.NOT_COORDINATOR
    assert desk.heartbeat(old, "a") is NONE


def test_an_unknown_name_under_a_known_id() -> None:
    """A member cannot give itself a name afterwards."""
    desk = Desk()
    member = desk.form(None)[0]
    assert desk.answers[desk.join(member.member_id, instance="a")].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_names_survive_the_coordinator() -> None:
    """A successor fences the same processes."""
    desk = Desk()
    old = desk.form("a")[0]
    new = desk.joined(desk.join(instance="a"))
    desk.succeed()
    assert desk.heartbeat(old, "a") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(new, "a") is NONE
