"""How groups come to agree: join, sync, heartbeat, leave, and what time does to them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.groups.desk import NONE, RANGE, REBALANCE_MS, SESSION_MS, Desk, G

from tidelog.groups.membership import NEW_MEMBER_TIMEOUT_MS
from tidelog.groups.messages import HeartbeatRequest, JoinedMember, LeaveRequest, LeavingMember, SyncRequest
from tidelog.wire.errors import ErrorCode


def test_the_first_member_leads_and_is_sent_everybody() -> None:
    """Alone, a member is answered at once: generation 1, itself as leader, its own metadata to share out."""
    desk = Desk()
    joined = desk.joined(desk.join())
    assert (joined.generation, joined.protocol_type, joined.protocol) == (1, "consumer", "range")
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("client-")
    assert joined.members == (JoinedMember(joined.member_id, None, RANGE[0][1]),)
    assert desk.state == "CompletingRebalance"
    synced = desk.answers[desk.sync(joined, {joined.member_id: b"all"})]
    assert (synced.error, synced.assignment) == (NONE, b"all")
    assert desk.state == "Stable"


def test_a_second_member_makes_everybody_join_again() -> None:
    """The old member hears of the rebalance by its heartbeat; both get generation 2, only the leader gets the
    other's metadata; each gets its own part."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    assert second not in desk.answers
    assert desk.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.joined(desk.join(first.member_id))
    other = desk.joined(second)
    assert again.generation == other.generation == 2
    assert again.leader == other.leader == first.member_id
    assert [member.member_id for member in again.members] == [first.member_id, other.member_id]
    assert other.members == ()
    waiting = desk.sync(other)
    assert waiting not in desk.answers
    leading = desk.sync(again, {first.member_id: b"1", other.member_id: b"2"})
    assert desk.answers[waiting].assignment == b"2"
    assert desk.answers[leading].assignment == b"1"


def test_an_id_is_asked_for_first() -> None:
    """A newer client is given an id and comes back with it; the id alone is no member (KIP-394)."""
    desk = Desk()
    required = desk.answers[desk.join(asks_for_id_first=True)]
    assert required.error is ErrorCode.MEMBER_ID_REQUIRED
    assert desk.describe().members == ()
    joined = desk.joined(desk.join(required.member_id, asks_for_id_first=True))
    assert joined.member_id == required.member_id


def test_an_id_that_is_not_used_expires() -> None:
    """A client that joins too late with its id is unknown; the group does not wait for it forever."""
    desk = Desk()
    first = desk.form(None)[0]
    required = desk.answers[desk.join(asks_for_id_first=True)]
    rejoining = desk.join(first.member_id, protocols=(("range", b"other"),))
    assert rejoining not in desk.answers, "the group waits for the member that was given an id"
    desk.pass_time(SESSION_MS)
    assert desk.joined(rejoining).generation == 2
    assert desk.answers[desk.join(required.member_id)].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_group_waits_for_more_members() -> None:
    """With an initial delay, members that come within it are in the first generation; each newcomer extends
    the wait, up to the rebalance timeout."""
    desk = Desk(initial_rebalance_delay_ms=3_000)
    asked = [desk.join(rebalance_timeout_ms=8_000)]
    for _ in range(3):
        desk.pass_time(2_500)
        asked.append(desk.join(rebalance_timeout_ms=8_000))
    assert not any(number in desk.answers for number in asked)
    desk.pass_time(500)  # 8 s since the first
    joined = [desk.joined(number) for number in asked]
    assert [each.generation for each in joined] == [1, 1, 1, 1]
    assert len(joined[0].members) == 4


def test_who_does_not_join_again_is_out() -> None:
    """When the rebalance timeout is over the others go on without it, and its id means nothing any more."""
    desk = Desk()
    lost, here = desk.form(None, None)
    rejoining = desk.join(here.member_id, protocols=(("range", b"other"),))
    for _ in range(REBALANCE_MS // 5_000):
        desk.heartbeat(lost)  # alive, but does not come
        desk.pass_time(5_000)
    joined = desk.joined(rejoining)
    assert joined.leader == here.member_id
    assert len(joined.members) == 1
    assert desk.heartbeat(lost) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_dies() -> None:
    """After its session timeout a member is gone and the others rebalance; heartbeats keep it alive."""
    desk = Desk()
    silent, lively = desk.form(None, None)
    desk.pass_time(SESSION_MS - 1)
    assert desk.heartbeat(lively) is NONE
    desk.pass_time(1)
    assert desk.heartbeat(lively) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(silent) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.joined(desk.join(lively.member_id)).leader == lively.member_id


def test_a_waiting_member_does_not_die() -> None:
    """Who waits for a join or a sync of ours cannot send heartbeats, and is not held to them."""
    desk = Desk()
    lost, here = desk.form(None, None)
    waiting = desk.join(here.member_id, protocols=(("range", b"other"),))
    for _ in range(5):
        desk.pass_time(SESSION_MS - 1)
        desk.heartbeat(lost)
    assert waiting not in desk.answers
    assert len(desk.describe().members) == 2


def test_a_newcomer_that_waits_too_long_is_dropped() -> None:
    """A client that gave up waiting for its first join leaves no member behind."""
    desk = Desk()
    steady = desk.joined(desk.join(rebalance_timeout_ms=10 * NEW_MEMBER_TIMEOUT_MS))
    desk.sync(steady)
    newcomer = desk.join(rebalance_timeout_ms=10 * NEW_MEMBER_TIMEOUT_MS)
    for _ in range(NEW_MEMBER_TIMEOUT_MS // 5_000):
        desk.heartbeat(steady)
        desk.pass_time(5_000)
    assert desk.answers[newcomer].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(desk.describe().members) == 1


def test_the_last_to_leave_empties_the_group() -> None:
    """An empty group keeps its generation count: the next member gets a later one."""
    desk = Desk()
    member = desk.form(None)[0]
    assert desk.leave(member.member_id) is NONE
    assert desk.state == "Empty"
    assert desk.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.joined(desk.join()).generation == 3  # 1, then the empty one, then this


def test_leaving_of_a_waiting_member() -> None:
    """A join that waits is answered when its member is taken out, and the rest do not wait for it."""
    desk = Desk()
    first = desk.form(None)[0]
    newcomer = desk.join(asks_for_id_first=True)
    id_ = desk.answers[newcomer].member_id
    waiting = desk.join(id_)
    assert desk.leave(id_) is NONE
    assert desk.answers[waiting].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.joined(desk.join(first.member_id)).members[0].member_id == first.member_id


def test_several_leave_at_once() -> None:
    """Each is answered for itself."""
    desk = Desk()
    first, second = desk.form(None, None)
    gone = tuple(map(LeavingMember, (first.member_id, "nobody", second.member_id)))
    assert desk.answer(LeaveRequest(G, gone)).members == (NONE, ErrorCode.UNKNOWN_MEMBER_ID, NONE)
    assert desk.state == "Empty"


def test_the_protocol_that_most_prefer() -> None:
    """Of the assignors that all members support the one that most prefer is chosen."""
    desk = Desk()
    sticky_first = (("sticky", b""), ("range", b""))
    range_first = (("modern", b""), ("range", b""), ("sticky", b""))
    asked = [desk.join(protocols=sticky_first)]
    asked += [desk.join(protocols=range_first) for _ in range(2)]
    first = desk.joined(asked[0])
    asked[0] = desk.join(first.member_id, protocols=sticky_first)
    assert {desk.joined(number).protocol for number in asked} == {"range"}


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        ({"protocols": (("other", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "x" * 32_768}, ErrorCode.INVALID_GROUP_ID),
        ({"instance": "x" * 32_768}, ErrorCode.INVALID_REQUEST),
        ({"protocol_type": "x" * 32_768}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_joins_change_nothing(refused: dict, error: ErrorCode) -> None:
    """A refused join gets its error, and the group stays as it is."""
    desk = Desk()
    desk.form(None)
    before = desk.describe()
    assert desk.answers[desk.join(**refused)].error is error
    assert desk.describe() == before


def test_an_empty_group_wants_a_protocol() -> None:
    """The first member must name a protocol type and at least one protocol."""
    desk = Desk()
    for other in ({"protocols": ()}, {"protocol_type": ""}):
        assert desk.answers[desk.join(**other)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_of_the_longest_name_works() -> None:
    """A name of 32,767 bytes fits a record to the byte."""
    desk = Desk()
    assert desk.joined(desk.join(group="x" * 32_767)).generation == 1


def test_a_client_of_the_longest_name_gets_a_reasonable_id() -> None:
    """A member id fits every version of every answer, whatever the client calls itself."""
    desk = Desk()
    assert len(desk.joined(desk.join(client_id="c" * 32_767)).member_id) < 300


def test_group_max_size() -> None:
    """A full group accepts no further member until one leaves."""
    desk = Desk(members_max=2)
    first, second = desk.form(None, None)
    assert desk.answers[desk.join()].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.heartbeat(second) is NONE
    desk.leave(first.member_id)
    third = desk.join()
    desk.join(second.member_id)
    assert desk.joined(third).generation == second.generation + 1


def test_generations_are_checked() -> None:
    """An old or a future generation is illegal, for heartbeat and sync alike, and does no harm."""
    desk = Desk()
    member = desk.form(None)[0]
    for generation in (member.generation - 1, member.generation + 1, -1):
        assert desk.heartbeat(member, generation=generation) is ErrorCode.ILLEGAL_GENERATION
        answer = desk.answers[desk.sync(member, {member.member_id: b"evil"}, generation=generation)]
        assert answer.error is ErrorCode.ILLEGAL_GENERATION
    assert desk.assignment(member).assignment == b"0"


def test_sync_names_the_protocol() -> None:
    """A member that believes in another protocol than the group's must not take part (KIP-559)."""
    desk = Desk()
    member = desk.form(None)[0]
    wrongs: tuple[dict[str, Any], ...] = ({"protocol": "sticky"}, {"protocol_type": "connect"})
    for wrong in wrongs:
        answer = desk.answers[desk.sync(member, **wrong)]
        assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for silent in ({"protocol": None}, {"protocol_type": None}):
        assert desk.answers[desk.sync(member, **silent)].assignment == b"0"


def test_only_the_leader_assigns() -> None:
    """What another member hands in with its sync is ignored."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    again = desk.joined(desk.join(first.member_id))
    other = desk.joined(second)
    waiting = desk.sync(other, {other.member_id: b"mine, all mine"})
    assert waiting not in desk.answers
    desk.sync(again, {})
    assert desk.answers[waiting].assignment == b""


def test_a_rebalance_ends_waiting_syncs() -> None:
    """A sync that waits for the assignment of an old generation gets REBALANCE_IN_PROGRESS."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    desk.join(first.member_id)
    waiting = desk.sync(desk.joined(second))
    desk.join()
    assert desk.answers[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_counts_once_it_is_written() -> None:
    """The leader's sync waits for the log, and so do the syncs of all members."""
    desk = Desk()
    joined = desk.joined(desk.join())
    desk.held = []
    waiting = desk.sync(joined, {joined.member_id: b"all"})
    assert waiting not in desk.answers
    assert desk.state == "CompletingRebalance"
    desk.commit_held()
    assert desk.answers[waiting].assignment == b"all"


def test_an_assignment_that_is_written_too_late() -> None:
    """If a rebalance has begun meanwhile, the assignment of the previous generation is dropped."""
    desk = Desk()
    joined = desk.joined(desk.join())
    desk.held = []
    waiting = desk.sync(joined, {joined.member_id: b"all"})
    newcomer = desk.join()
    assert desk.answers[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.commit_held()
    assert desk.state == "PreparingRebalance"
    desk.join(joined.member_id)
    assert desk.joined(newcomer).generation == 2


def test_two_syncs_of_one_member() -> None:
    """The later attempt is the one that counts; the earlier one is not left without an answer."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    again = desk.joined(desk.join(first.member_id))
    other = desk.joined(second)
    earlier, later = desk.sync(other), desk.sync(other)
    assert desk.answers[earlier].error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.sync(again, {other.member_id: b"yours"})
    assert desk.answers[later].assignment == b"yours"


def test_two_assignments_of_one_generation() -> None:
    """A leader that syncs again while its assignment is being written gets that one, however it has decided
    since: the next coordinator will know no other."""
    desk = Desk()
    joined = desk.joined(desk.join())
    desk.held = []
    desk.sync(joined, {joined.member_id: b"first"})
    again = desk.sync(joined, {joined.member_id: b"second"})
    desk.commit_held()
    assert desk.answers[again].assignment == b"first"
    desk.succeed()
    assert desk.assignment(joined).assignment == b"first"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_written(failure: ErrorCode, told: ErrorCode) -> None:
    """The members get an error of the group protocol, and the group starts over."""
    desk = Desk()
    joined = desk.joined(desk.join())
    desk.held = []
    waiting = desk.sync(joined, {joined.member_id: b"all"})
    desk.commit_held(failure)
    assert desk.answers[waiting].error is told
    assert desk.state == "PreparingRebalance"
    again = desk.joined(desk.join(joined.member_id))
    assert again.generation == 2


def test_a_follower_that_asks_again_is_answered_again() -> None:
    """A member whose answer was lost gets the same one; a leader that joins again wants a rebalance."""
    desk = Desk()
    leader, follower = desk.form(None, None)
    assert desk.joined(desk.join(follower.member_id)).generation == follower.generation
    assert desk.state == "Stable"
    waiting = desk.join(leader.member_id)
    assert desk.state == "PreparingRebalance"
    desk.join(follower.member_id)
    assert desk.joined(waiting).generation == leader.generation + 1


def test_two_joins_of_one_member() -> None:
    """The later attempt is the one that counts; the earlier one is not left without an answer."""
    desk = Desk()
    first, second = desk.form(None, None)
    changed = (("range", b"changed"),)
    earlier = desk.join(second.member_id, protocols=changed)
    later = desk.join(second.member_id, protocols=changed)
    assert desk.answers[earlier].error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(first.member_id)
    assert desk.joined(later).generation == second.generation + 1


def test_groups_nobody_knows() -> None:
    """Members of a group that does not exist are strangers, and asking does not make it exist."""
    desk = Desk()
    assert desk.answer(HeartbeatRequest(G, 1, "m")).error is ErrorCode.UNKNOWN_MEMBER_ID
    sync = SyncRequest(G, 1, "m", None, None, None, {})
    assert desk.answer(sync).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.leave("m") is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.state == "Dead"
    assert list(desk.coordinator.groups()) == []
