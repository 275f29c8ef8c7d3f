"""DeleteRecords: the front of a log is deleted for good, and the answer comes when every replica has done
so."""

import pytest
from tests.core.harness import TP, Bench, leading, records

from tidelog.core.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    UpdateMetadataRequest,
)
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from tidelog.wire.errors import ErrorCode

NONE, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


def delete(bench: Bench, offset: int, timeout_ms: int = 5_000, tp: TopicPartition = TP) -> object:
    token = ("deleter", offset, bench.now)
    bench.hear(DeleteRecordsRequest(tp=tp, offset=offset, timeout_ms=timeout_ms), token)
    return token


def answer_to(bench: Bench, token: object) -> tuple[ErrorCode, int] | None:
    answer = bench.answer(token, DeleteRecordsResponse)
    return None if answer is None else (answer.error, answer.low_watermark)


def report(bench: Bench, replica: int, start: int, offset: int = 4) -> object:
    """A follower's fetch that says where its own log starts."""
    token = ("follower", replica, start, bench.now)
    epoch = bench.replica.leader_epoch
    request = FetchRequest(TP, BrokerId(replica), offset, epoch, 500, BrokerEpoch(1), log_start_offset=start)
    bench.hear(request, token)
    return token


def test_it_is_answered_when_the_followers_have_let_go() -> None:
    """The leader's log starts there at once; the answer waits for the fetch that says the follower's does."""
    bench = leading("abcd")
    token = delete(bench, 3)
    assert bench.replica.log.start_offset == 3
    assert answer_to(bench, token) is None
    report(bench, 1, 0)
    assert answer_to(bench, token) is None
    report(bench, 1, 3)
    assert answer_to(bench, token) == (NONE, 3)


def test_each_request_has_a_deadline_of_its_own() -> None:
    """Whichever came first; and however many there are, one timer is enough."""
    bench = leading("abcd")
    bench.pass_time(1)
    late, soon = delete(bench, 2, timeout_ms=9_000), delete(bench, 3, timeout_ms=1_000)
    bench.pass_time(1_000)
    assert (answer_to(bench, late), answer_to(bench, soon)) == (None, (TIMED_OUT, -1))
    before = len(bench.core.ctx.timers)
    waiting = []
    for number in range(500):
        bench.pass_time(1)
        waiting.append(delete(bench, 4, timeout_ms=8_000 - 5 * number))
    assert len(bench.core.ctx.timers) < before + 100
    bench.pass_time(10_000)
    assert {answer_to(bench, token) for token in (late, *waiting)} == {(TIMED_OUT, -1)}


def test_all_followers_count() -> None:
    """The low watermark is the smallest log start."""
    bench = leading("abcd", replicas=(0, 1, 2))
    token = delete(bench, 2)
    report(bench, 1, 2)
    assert answer_to(bench, token) is None
    report(bench, 2, 3)
    assert answer_to(bench, token) == (NONE, 2)


def test_a_leader_without_followers_answers_at_once() -> None:
    """It has no follower to wait for."""
    bench = Bench(replicas=(0,))
    bench.lead()
    bench.produce("a")
    assert answer_to(bench, delete(bench, 1)) == (NONE, 1)


def test_minus_one_is_the_high_watermark() -> None:
    """Everything that is committed, and nothing that is not."""
    bench = leading("abcd")
    bench.produce("e", acks=1)
    delete(bench, -1)
    assert bench.replica.log.start_offset == 4
    assert bench.values == "e"


@pytest.mark.parametrize("offset", [5, 99, -2])
def test_only_what_is_committed_can_be_deleted(offset: int) -> None:
    """OFFSET_OUT_OF_RANGE, and nothing goes."""
    bench = leading("abcd")
    bench.produce("e", acks=1)
    assert answer_to(bench, delete(bench, offset)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert bench.values == "abcde"


def test_deleting_less_than_is_gone_already() -> None:
    """Nothing to do, and the answer is how much is gone."""
    bench = leading("abcd")
    delete(bench, 3)
    report(bench, 1, 3)
    bench.now += 1
    assert answer_to(bench, delete(bench, 1)) == (NONE, 3)
    assert bench.values == "d"


def test_a_follower_hears_of_it_without_delay() -> None:
    """Its parked fetch is answered, though there is nothing to read; a consumer's is not."""
    bench = leading("abcd")
    follower, consumer = report(bench, 1, 0), bench.consume(4, wait_ms=500)
    delete(bench, 2)
    answer = bench.answer(follower, FetchResponse)
    assert answer is not None
    assert (answer.log_start_offset, list(answer.batches)) == (2, [])
    assert bench.is_parked(consumer)


def test_a_follower_obeys_and_reports() -> None:
    """Its log starts where the leader's does, and its next fetch says so."""
    bench = Bench()
    bench.follow(1, 0)
    bench.fed(0, records("abcd"), high_watermark=4)
    response = FetchResponse(TP, NONE, 4, LeaderEpoch(0), 4, (), log_start_offset=2)
    bench.hear(response, BrokerId(1))
    assert bench.values == "cd"
    assert bench.last_sent(FetchRequest).log_start_offset == 2


def test_it_times_out() -> None:
    """REQUEST_TIMED_OUT with the low watermark so far: the records are gone all the same."""
    bench = leading("abcd")
    report(bench, 1, 0)
    first, second = delete(bench, 2, timeout_ms=1_000), delete(bench, 3, timeout_ms=2_000)
    bench.pass_time(1_500)
    assert (answer_to(bench, first), answer_to(bench, second)) == ((TIMED_OUT, 0), None)
    bench.pass_time(1_000)
    assert answer_to(bench, second) == (TIMED_OUT, 0)
    assert bench.values == "d"


def test_a_dead_follower_does_not_count() -> None:
    """It is not waited for: noticed at the latest when the time is up."""
    bench = leading("abcd", replicas=(0, 1, 2))
    token = delete(bench, 2, timeout_ms=1_000)
    report(bench, 1, 2)
    assert answer_to(bench, token) is None
    live = dict.fromkeys((BrokerId(0), BrokerId(1)), BrokerEpoch(1))
    me = bench.core.ctx.broker_epoch
    bench.hear(
        UpdateMetadataRequest(
            controller=BrokerId(9),
            controller_epoch=ControllerEpoch(1),
            broker_epoch=me,
            request_id=99,
            live_brokers=live,
            endpoints={},
            partitions=(),
        ),
        BrokerId(9),
    )
    bench.pass_time(1_500)
    assert answer_to(bench, token) == (NONE, 2)
    assert answer_to(bench, delete(bench, 3)) is None
    report(bench, 1, 3)
    assert bench.values == "d"


def test_a_leader_that_steps_down_says_so() -> None:
    """Its successor may not have let go: NOT_LEADER_OR_FOLLOWER."""
    bench = leading("abcd")
    token = delete(bench, 2)
    bench.follow(1, 1)
    assert answer_to(bench, token) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    bench.pass_time(10_000)


def test_others_refuse() -> None:
    """A follower: NOT_LEADER_OR_FOLLOWER; an unknown partition: UNKNOWN_TOPIC_OR_PARTITION."""
    bench = Bench()
    bench.follow(1, 0)
    assert answer_to(bench, delete(bench, 0)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    elsewhere = TopicPartition("u", 0)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    bench.now += 1
    assert answer_to(bench, delete(bench, 0, tp=elsewhere)) == unknown


def test_a_new_leader_knows_nothing_of_its_followers_logs() -> None:
    """What they reported to its predecessor does not count."""
    bench = leading("abcd")
    report(bench, 1, 0)
    bench.follow(1, 1)
    bench.lead(epoch=2)
    assert isinstance(bench.replica.role, LeaderRole)
    assert bench.replica.role.followers[BrokerId(1)].log_start_offset == -1
