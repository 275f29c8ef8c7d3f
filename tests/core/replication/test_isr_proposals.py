"""The in-sync replicas as a leader sees them: three rules to leave, one to enter, and the time between."""

from dataclasses import replace

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, disk, ids

from tidelog.core import keeper_paths
from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.events import IsrChanged, IsrChangeProposed, IsrChangeRefused, PartitionStateWritten
from tidelog.core.keeper_port import Create, SetValue
from tidelog.core.messages import AlterIsrRequest, AlterIsrResponse, UpdateMetadataRequest
from tidelog.core.replication.follower_progress import NEVER, FollowerProgress
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicConfig,
)
from tidelog.wire.errors import ErrorCode

LAG = BrokerConfig(replica_lag_time_max_ms=10_000, replica_lag_max_messages=4)
RULES = tuple(IsrRule)


def proposed(bench: Bench) -> list[tuple[int, ...]]:
    return [event.isr for event in bench.happened(IsrChangeProposed)]


def answer(bench: Bench, error: ErrorCode = ErrorCode.NONE) -> None:
    """The controller answers the last ISR proposal."""
    asked = bench.last_sent(AlterIsrRequest)
    response = AlterIsrResponse(tp=TP, error=error, leader_epoch=asked.leader_epoch, number=asked.number)
    if error is ErrorCode.NONE:
        response.isr, response.version = asked.isr, asked.version + 1
    bench.hear(response, CONTROLLER)


def leading(rule: IsrRule = IsrRule.CAUGHT_UP_TIME, generation: str = "epoch") -> Bench:
    """A leader whose ISR check runs every five seconds (under hw every ten) and whose follower has just
    fetched."""
    bench = Bench(generation=generation, config=replace(LAG, isr_rule=rule))
    bench.lead()
    bench.fetch(1, 0)
    return bench


# ---------------------------------------------------------------- leaving: three rules


@pytest.mark.parametrize("rule", RULES)
def test_an_idle_partition_keeps_its_isr(rule: IsrRule) -> None:
    """A follower that has everything and keeps fetching is in sync by every rule."""
    bench = leading(rule)
    for _ in range(50):
        bench.pass_time(1_000)
        bench.fetch(1, 0)
    assert proposed(bench) == []


@pytest.mark.parametrize(
    ("rule", "isr"),
    [
        (IsrRule.FETCH_TIME, [(0,)]),
        (IsrRule.MESSAGE_LAG, []),
        (IsrRule.CAUGHT_UP_TIME, [(0,)]),
    ],
)
def test_a_silent_follower(rule: IsrRule, isr: list[tuple[int, ...]]) -> None:
    """No fetch for replica.lag.time.max.ms, one record behind: both time rules notice, the count does not."""
    bench = leading(rule)
    bench.produce("a", acks=1)
    bench.pass_time(10_000)
    assert proposed(bench) == []
    bench.pass_time(5_000)
    assert proposed(bench) == isr


def test_a_silent_follower_of_a_silent_partition_stays() -> None:
    """Caught-up rule: a follower at the leader's log end is not lagging, however long ago it fetched."""
    bench = leading()
    bench.pass_time(120_000)
    assert proposed(bench) == []


@pytest.mark.parametrize(("generation", "seconds"), [("hw", 20), ("kip101", 15)])
def test_before_2_1_it_left(generation: str, seconds: int) -> None:
    """A caught-up follower that has gone silent is dropped at the first check after the lag time."""
    bench = leading(generation=generation)
    bench.pass_time(seconds * 1_000 - 1)
    assert proposed(bench) == []
    bench.pass_time(1)
    assert proposed(bench) == [(0,)]


def test_before_0_10_2_the_lag_did_not_count_from_the_election() -> None:
    """A new leader drops at its first check a follower that has not fetched from it: the follower was last
    known to be caught up when this process had its first role in the partition."""
    bench = Bench(generation="hw", config=LAG)
    bench.follow(1, epoch=0)
    bench.pass_time(60_000)
    bench.lead(epoch=1)
    bench.pass_time(9_999)
    assert proposed(bench) == []
    bench.pass_time(1)
    assert proposed(bench) == [(0,)]


@pytest.mark.parametrize(
    ("rule", "isr"),
    [
        (IsrRule.FETCH_TIME, []),
        (IsrRule.MESSAGE_LAG, []),
        (IsrRule.CAUGHT_UP_TIME, [(0,)]),
    ],
)
def test_a_follower_that_fetches_and_never_catches_up(rule: IsrRule, isr: list[tuple[int, ...]]) -> None:
    """Always two records behind, fetching busily: the fetch-time rule calls that in sync for ever."""
    bench = leading(rule)
    bench.produce("ab", acks=1)
    bench.produce("cd", acks=1)
    for offset in range(15):
        bench.fetch(1, offset)
        bench.produce("e", acks=1)
        bench.pass_time(1_000)
    assert proposed(bench) == isr


@pytest.mark.parametrize(
    ("rule", "isr"),
    [
        (IsrRule.FETCH_TIME, []),
        (IsrRule.MESSAGE_LAG, [(0,)]),
        (IsrRule.CAUGHT_UP_TIME, []),
    ],
)
def test_a_burst_just_before_the_check(rule: IsrRule, isr: list[tuple[int, ...]]) -> None:
    """Five records at once: by count the follower is out, although it was caught up a moment ago."""
    bench = leading(rule)
    bench.pass_time(4_900)
    bench.fetch(1, 0)
    for value in "abcde":
        bench.produce(value, acks=1)
    bench.pass_time(100)
    assert proposed(bench) == isr


def test_message_lag_counts_strictly_more() -> None:
    """Exactly replica.lag.max.messages behind is still in sync."""
    bench = leading(IsrRule.MESSAGE_LAG)
    for value in "abcd":
        bench.produce(value, acks=1)
    bench.pass_time(5_000)
    assert proposed(bench) == []
    bench.produce("e", acks=1)
    bench.pass_time(5_000)
    assert proposed(bench) == [(0,)]


@pytest.mark.parametrize(
    ("fetches", "caught_up", "reason"),
    [
        ([(0, 0, 5)], NEVER, "behind from the first fetch on"),
        ([(10, 5, 5)], 10, "it reached the end: caught up now"),
        ([(10, 5, 5), (20, 5, 8)], 10, "behind now, and not beyond where the end was at the last fetch"),
        (
            [(10, 3, 5), (20, 5, 8)],
            10,
            "behind now, but it has what was the end last time: caught up then",
        ),
        ([(10, 3, 5), (20, 5, 8), (30, 8, 12)], 20, "under steady load it is always a little behind"),
        ([(10, 3, 5), (20, 4, 8)], NEVER, "it did not even reach the old end"),
        ([(10, 8, 8), (20, 2, 8)], 10, "it fell back: the last time stays"),
    ],
)
def test_when_a_follower_was_last_caught_up(
    fetches: list[tuple[int, int, int]], caught_up: int, reason: str
) -> None:
    """lastCaughtUp: this fetch's time if it reached our end, else the previous fetch's time if it reached the
    end of that moment. Each fetch is (time, offset, our end)."""
    follower = FollowerProgress()
    for now, offset, end in fetches:
        follower.fetched(offset, end, now, previous_counts=True)
    assert follower.last_caught_up == caught_up, reason


def test_before_0_10_2_only_the_current_end_counted() -> None:
    """Under steady load a follower that is always a little behind was never caught up (KAFKA-4384)."""
    follower = FollowerProgress()
    for now, offset, end in ((10, 3, 5), (20, 5, 8), (30, 8, 12)):
        follower.fetched(offset, end, now, previous_counts=False)
    assert follower.last_caught_up == NEVER


# ---------------------------------------------------------------- entering


def test_a_follower_enters_when_it_has_everything_committed() -> None:
    """LEO ≥ HW: not a record earlier, and it need not reach the log end."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=(0, 1))
    for value in "abc":
        bench.produce(value, acks=1)
    bench.fetch(1, 2)
    assert bench.hw == 2
    bench.fetch(2, 1)
    assert proposed(bench) == []
    bench.fetch(2, 2)
    assert proposed(bench) == [(0, 1, 2)]


def test_a_follower_enters_only_above_the_start_of_the_epoch() -> None:
    """A new leader's watermark is stale; records below its first offset may be committed (KAFKA-7128)."""
    bench = Bench(storage=disk((0, "abc"), high_watermark=0), replicas=(0, 1, 2))
    bench.lead(epoch=1, isr=(0, 1))
    bench.fetch(2, 0)
    bench.fetch(2, 2)
    assert proposed(bench) == []
    bench.fetch(2, 3)
    assert proposed(bench) == [(0, 1, 2)]


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_kafka_7128_the_stale_watermark_was_enough(generation: str) -> None:
    """Older leaders take an empty follower in as long as they believe that nothing is committed."""
    bench = Bench(generation=generation, storage=disk((0, "abc"), high_watermark=0), replicas=(0, 1, 2))
    bench.lead(epoch=1, isr=(0, 1))
    bench.fetch(2, 0)
    assert proposed(bench) == [(0, 1, 2)]


# ---------------------------------------------------------------- a change is a proposal until it is written


def test_a_proposal_names_epoch_version_and_incarnations() -> None:
    """AlterIsr (KIP-497) with the members' broker epochs (KIP-903), sent to the controller."""
    bench = Bench(replicas=(0, 1))
    bench.lead(epoch=3, isr=(0,), version=8)
    bench.fetch(1, 0, broker_epoch=44)
    asked = bench.last_sent(AlterIsrRequest)
    assert bench.sent[-1].to == CONTROLLER
    me = bench.core.ctx.broker_epoch
    assert asked == AlterIsrRequest(
        tp=TP,
        broker=BrokerId(0),
        broker_epoch=me,
        leader_epoch=LeaderEpoch(3),
        isr=ids((0, 1)),
        version=8,
        member_epochs=(me, BrokerEpoch(44)),
        number=1,
    )


def test_one_proposal_at_a_time() -> None:
    """While one is open, no other change is asked for."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=(0,))
    bench.fetch(1, 0)
    bench.fetch(2, 0)
    assert proposed(bench) == [(0, 1)]
    answer(bench)
    bench.fetch(2, 0)
    assert proposed(bench) == [(0, 1), (0, 1, 2)]


def test_an_expansion_in_doubt_holds_the_watermark_back() -> None:
    """The keeper may have taken it, and an election may use it: count the new member at once (KAFKA-8836)."""
    bench = Bench(replicas=(0, 1))
    bench.lead(isr=(0,))
    bench.fetch(1, 0)
    bench.produce("a", acks=1)
    bench.pass_time(200_000)
    assert bench.leader.maximal_isr == (0, 1)
    assert bench.hw == 0
    answer(bench)
    assert bench.leader.isr == (0, 1)
    bench.fetch(1, 1)
    assert bench.hw == 1


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_kip_497_an_expansion_in_doubt_was_not_counted(generation: str) -> None:
    """An older leader trusts the ISR it knows, once the follower is no longer recently caught up."""
    bench = Bench(generation=generation, replicas=(0, 1))
    state = PartitionState(BrokerId(0), LeaderEpoch(0), ids((1, 0)), ControllerEpoch(1), 1)
    bench.lead(isr=(0,))
    assert bench.leader.isr == (0,)
    # Another broker wrote first: the leader's own write is refused, and its outcome stays unknown.
    write_state(bench, state, version=2)
    bench.fetch(1, 0)
    assert bench.leader.proposal is not None
    bench.produce("a", acks=1)
    bench.pass_time(60_000)
    bench.produce("b", acks=1)
    assert bench.hw == 2


def test_a_shrink_in_doubt_releases_nothing() -> None:
    """The member that is to leave may still be elected: it counts until the controller has confirmed."""
    bench = leading()
    bench.produce("a", acks=1)
    bench.pass_time(15_000)
    assert proposed(bench) == [(0,)]
    bench.pass_time(60_000)
    assert (bench.leader.isr, bench.hw) == ((0, 1), 0)
    answer(bench)
    assert [event.isr for event in bench.happened(IsrChanged)] == [(0,)]


def test_a_shrink_of_the_leader_leaves_the_watermark_to_the_next_append() -> None:
    """2.7 does not recompute it when the controller confirms (recording e3-27): a send that waits ends with
    REQUEST_TIMED_OUT."""
    bench = leading()
    ack = bench.produce("a", timeout_ms=25_000)
    bench.pass_time(15_000)
    answer(bench)
    assert (bench.leader.isr, bench.hw) == ((0,), 0)
    bench.pass_time(10_000)
    assert bench.answer_to(ack) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    bench.produce("b", acks=1)
    assert bench.hw == 2


def test_a_shrink_of_the_controller_raises_it_at_once() -> None:
    """It comes with a new epoch, which recomputes the watermark (recording e3b-27)."""
    bench = leading()
    bench.core.configure_topic("t", TopicConfig(2))
    ack = bench.produce("a", timeout_ms=25_000)
    bench.lead(epoch=1, isr=(0,), version=1)
    assert bench.answer_to(ack) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    assert bench.hw == 1


@pytest.mark.parametrize(
    "error",
    [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.STALE_BROKER_EPOCH],
)
def test_a_refused_proposal_stays_in_doubt_until_the_controller_speaks(error: ErrorCode) -> None:
    """The controller knows better and will say so: until then nothing changes and nothing is asked."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=(0, 1))
    bench.fetch(2, 0)
    answer(bench, error)
    bench.fetch(2, 0)
    assert proposed(bench) == [(0, 1, 2)]
    assert bench.leader.maximal_isr == (0, 1, 2)
    assert [event.error for event in bench.happened(IsrChangeRefused)] == [error]
    bench.lead(epoch=1, isr=(0, 1), version=1)
    assert bench.leader.proposal is None


def test_a_rebooted_candidate_must_prove_itself_anew() -> None:
    """INELIGIBLE_REPLICA (KIP-903): forget the proposal; the next fetch may start another."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=(0, 1))
    bench.fetch(2, 0, broker_epoch=4)
    answer(bench, ErrorCode.INELIGIBLE_REPLICA)
    assert bench.leader.maximal_isr == (0, 1)
    bench.fetch(2, 0, broker_epoch=5)
    assert bench.last_sent(AlterIsrRequest).member_epochs[-1] == 5


def test_a_late_answer_to_an_earlier_proposal_is_ignored() -> None:
    """Answers count only for the epoch and the proposal that they belong to."""
    bench = Bench(replicas=(0, 1))
    bench.lead(epoch=1, isr=(0,), version=3)
    bench.fetch(1, 0)
    bench.hear(
        AlterIsrResponse(
            tp=TP,
            error=ErrorCode.NONE,
            leader_epoch=LeaderEpoch(0),
            number=1,
            isr=ids((0, 1)),
            version=4,
        ),
        CONTROLLER,
    )
    bench.hear(
        AlterIsrResponse(
            tp=TP,
            error=ErrorCode.NONE,
            leader_epoch=LeaderEpoch(1),
            number=0,
            isr=ids((0, 1)),
            version=4,
        ),
        CONTROLLER,
    )
    assert bench.leader.isr == (0,)
    answer(bench)
    assert (list(bench.leader.isr), bench.leader.version) == ([0, 1], 4)


def test_a_proposal_that_was_refused_twice_does_not_end_the_next_one() -> None:
    """A repeated proposal is answered twice. The second refusal may come when the leader has proposed again,
    with the same version: taken for an answer to that, it leaves the leader with an ISR that the controller
    has changed."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=(0,), version=3)
    bench.fetch(1, 0)
    first = bench.last_sent(AlterIsrRequest)
    answer(bench, ErrorCode.INELIGIBLE_REPLICA)
    bench.fetch(2, 0)
    second = bench.last_sent(AlterIsrRequest)
    assert (first.version, first.isr, second.version, second.isr) == (3, (0, 1), 3, (0, 2))
    refused_again = AlterIsrResponse(
        tp=TP,
        error=ErrorCode.INELIGIBLE_REPLICA,
        leader_epoch=first.leader_epoch,
        number=first.number,
    )
    bench.hear(refused_again, CONTROLLER)
    assert bench.leader.proposal == second
    answer(bench)
    assert bench.leader.isr == (0, 2)


def test_a_new_controller_is_asked_again() -> None:
    """The old one may have died with the proposal: it is repeated as soon as another makes itself known."""
    bench = Bench(replicas=(0, 1))
    bench.lead(isr=(0,))
    bench.fetch(1, 0)
    answer(bench, ErrorCode.NOT_CONTROLLER)
    assert bench.leader.proposal is not None
    live = dict.fromkeys(ids(range(4)), BrokerEpoch(1))
    header = bench.header(BrokerId(8), 2)
    bench.hear(UpdateMetadataRequest(**header, live_brokers=live, endpoints={}, partitions=()), BrokerId(8))
    assert [send.to for send in bench.sent if isinstance(send.message, AlterIsrRequest)] == [CONTROLLER, 8]


# ---------------------------------------------------------------- before KIP-497: straight to the keeper


def write_state(bench: Bench, state: PartitionState, version: int) -> None:
    """Put a partition's state into the keeper, at this version."""
    writer = bench.tree.open_session()
    for path in (
        keeper_paths.topic_path("t"),
        f"{keeper_paths.topic_path('t')}/partitions",
        keeper_paths.partition_path(TP),
    ):
        bench.tree.apply(writer, Create(path))
    bench.tree.apply(writer, Create(keeper_paths.state_path(TP), state))
    for _ in range(version):
        bench.tree.apply(writer, SetValue(keeper_paths.state_path(TP), state))


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_an_older_leader_writes_its_isr_itself_and_leaves_a_note(generation: str) -> None:
    """A conditional write of the state, and a sequential node under /isr_change_notification, once no ISR has
    changed for five seconds."""
    bench = Bench(generation=generation)
    write_state(bench, PartitionState(BrokerId(0), LeaderEpoch(2), ids((0,)), ControllerEpoch(1)), version=5)
    bench.lead(epoch=2, isr=(0,), version=5)
    bench.fetch(1, 0)
    node = bench.tree.get(keeper_paths.state_path(TP))
    assert node is not None
    assert (node.value.isr, node.value.leader_epoch, node.stat.version) == ((0, 1), 2, 6)
    assert (bench.leader.isr, bench.leader.version) == ((0, 1), 6)
    note = f"{keeper_paths.ISR_NOTIFICATIONS}/isr_change_0000000000"
    bench.pass_time(5_000)
    assert bench.tree.get(note) is None
    bench.pass_time(2_500)
    found = bench.tree.get(note)
    assert found is not None
    assert found.value == (TP,)
    assert [event.writer for event in bench.happened(PartitionStateWritten)] == [0]


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_a_broker_that_has_been_quiet_for_a_minute_leaves_its_note_at_the_next_look(generation: str) -> None:
    """It looks every 2.5 seconds. The minute counts from its start, as in 0.10.1 and 1.1."""
    bench = Bench(generation=generation)
    write_state(bench, PartitionState(BrokerId(0), LeaderEpoch(2), ids((0,)), ControllerEpoch(1)), version=5)
    bench.pass_time(60_001)
    bench.lead(epoch=2, isr=(0,), version=5)
    bench.fetch(1, 0)
    bench.pass_time(2_500)
    assert bench.tree.get(f"{keeper_paths.ISR_NOTIFICATIONS}/isr_change_0000000000") is not None


def test_a_deposed_older_leader_cannot_write() -> None:
    """Its version is out of date: the write is refused and the ISR it acts on stays."""
    bench = Bench(generation="hw")
    deposed_by = PartitionState(BrokerId(1), LeaderEpoch(3), ids((1,)), ControllerEpoch(1))
    write_state(bench, deposed_by, version=6)
    bench.lead(epoch=2, isr=(0,), version=5)
    bench.fetch(1, 0)
    node = bench.tree.get(keeper_paths.state_path(TP))
    assert node is not None
    assert node.value == deposed_by
    assert bench.leader.isr == (0,)
    assert [event.error for event in bench.happened(IsrChangeRefused)] == [ErrorCode.INVALID_UPDATE_VERSION]


def test_majority_never_touches_the_isr() -> None:
    """The ISR is the assignment and stays it, however far behind a replica is."""
    bench = Bench(generation="majority", config=LAG, replicas=(0, 1, 2))
    bench.lead()
    bench.produce("a", acks=1)
    bench.pass_time(60_000)
    bench.fetch(1, 0)
    assert proposed(bench) == []
