"""What a leader answers to fetches: who may read what, who waits, who is fenced (KIP-320)."""

import pytest
from tests.core.harness import TP, Bench, disk, leading, letters, records

from tidelog.core.messages import (
    CONSUMER,
    EpochEndRequest,
    EpochEndResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tidelog.core.types import NO_EPOCH, BrokerId, LeaderEpoch
from tidelog.wire.errors import ErrorCode

# ---------------------------------------------------------------- fetches


def test_a_follower_reads_to_the_end_and_a_consumer_to_the_watermark() -> None:
    """Only replicas may read records at or above the watermark."""
    bench = leading("ab")
    bench.produce("cd", acks=1)
    assert letters(bench.fetched(bench.fetch(1, 1))) == "bcd"
    response = bench.fetched(bench.consume(0))
    assert (letters(response), response.high_watermark) == ("ab", 2)


def test_a_parked_fetch_is_released_by_an_append() -> None:
    """The follower hears of the record at once, with the watermark of that moment."""
    bench = leading("a")
    parked = bench.fetch(1, 1, wait_ms=500)
    assert bench.is_parked(parked)
    bench.pass_time(100)
    bench.produce("b")
    response = bench.fetched(parked)
    assert (letters(response), response.high_watermark, response.offset) == ("b", 1, 1)


def test_a_parked_fetch_is_released_by_its_deadline() -> None:
    """After replica.fetch.wait.max.ms an empty answer goes out, with the watermark."""
    bench = leading("a")
    parked = bench.fetch(1, 1, wait_ms=500)
    bench.pass_time(499)
    assert bench.is_parked(parked)
    bench.pass_time(1)
    response = bench.fetched(parked)
    assert (response.error, letters(response), response.high_watermark) == (ErrorCode.NONE, "", 1)


def test_deadlines_that_clients_choose_leave_no_timers_behind() -> None:
    """Each earlier than the one before: a timer for the earliest is enough, and still all are answered."""
    bench = leading("a")
    parked = [bench.consume(1, wait_ms=100_000 - 50 * number) for number in range(1_000)]
    assert len(bench.core.ctx.timers) < 200
    bench.pass_time(75_000)
    assert not any(bench.is_parked(fetch) for fetch in parked[500:])
    assert all(bench.is_parked(fetch) for fetch in parked[:500])
    bench.pass_time(25_000)
    assert not any(bench.is_parked(fetch) for fetch in parked)


def test_each_parked_fetch_has_a_deadline_of_its_own() -> None:
    """Of two followers the one that came first is answered first."""
    bench = leading("a", replicas=(0, 1, 2))
    first = bench.fetch(1, 1, wait_ms=500)
    bench.pass_time(200)
    second = bench.fetch(2, 1, wait_ms=500)
    bench.pass_time(300)
    assert not bench.is_parked(first)
    assert bench.is_parked(second)
    bench.pass_time(200)
    assert not bench.is_parked(second)


def test_a_waiting_consumer_is_released_by_the_watermark_not_by_the_append() -> None:
    """For a consumer a record exists from the moment it is committed."""
    bench = leading("a")
    waiting = bench.consume(1, wait_ms=500)
    bench.produce("b", acks=1)
    assert bench.is_parked(waiting)
    bench.fetch(1, 2)
    assert letters(bench.fetched(waiting)) == "b"


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_an_offset_outside_the_log(offset: int) -> None:
    """OFFSET_OUT_OF_RANGE (1), and no receipt is booked."""
    bench = leading("abc")
    response = bench.fetched(bench.fetch(1, offset))
    assert response.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.leader.followers[BrokerId(1)].log_end_offset == 3


def test_a_stranger_and_a_former_life_are_not_counted() -> None:
    """A broker that is no replica gets 6; a fetch of an earlier incarnation gets 77 (KIP-903)."""
    bench = leading("a")
    assert bench.fetched(bench.fetch(3, 1)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.fetch(1, 0, broker_epoch=5)
    stale = bench.fetched(bench.fetch(1, 1, broker_epoch=4))
    assert stale.error is ErrorCode.STALE_BROKER_EPOCH
    assert bench.leader.followers[BrokerId(1)].log_end_offset == 0


# ---------------------------------------------------------------- fencing


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(
    ("asked_in", "error"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_requests_of_another_epoch_are_fenced(leads: bool, asked_in: int, error: ErrorCode) -> None:
    """Lower → 74, higher → 75, compared before leadership is: the same from a follower (KIP-320)."""
    bench = Bench()
    bench.assign(0 if leads else 1, 5, (0, 1))
    assert bench.fetched(bench.fetch(1, 0, epoch=asked_in)).error is error
    assert bench.fetched(bench.consume(0, epoch=asked_in)).error is error
    bench.hear(
        EpochEndRequest(
            tp=TP, replica=BrokerId(1), current_leader_epoch=LeaderEpoch(asked_in), asked_epoch=LeaderEpoch(0)
        ),
        "asker",
    )
    bench.hear(
        ListOffsetsRequest(tp=TP, replica=CONSUMER, current_leader_epoch=LeaderEpoch(asked_in)), "lister"
    )
    end, listed = bench.answer("asker", EpochEndResponse), bench.answer("lister", ListOffsetsResponse)
    assert end is not None
    assert listed is not None
    assert (end.error, listed.error) == (error, error)


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_kip_320_nothing_is_fenced(generation: str) -> None:
    """Older generations serve a fetch of any epoch, and book it: that is how zombies fork logs."""
    bench = leading("a", generation=generation)
    bench.produce("b", acks=1)
    assert letters(bench.fetched(bench.fetch(1, 1, epoch=7))) == "b"
    bench.fetch(1, 2, epoch=7)
    assert bench.hw == 2


def test_a_consumer_without_an_epoch_is_only_asked_for_the_leader() -> None:
    """Clients that know no epochs get 6 from a follower, and an answer from the leader."""
    bench = Bench()
    bench.follow(1, epoch=3)
    assert bench.fetched(bench.consume(0, epoch=NO_EPOCH)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.lead(epoch=4)
    assert bench.fetched(bench.consume(0, epoch=NO_EPOCH)).error is ErrorCode.NONE


# ---------------------------------------------------------------- consumers at a follower (KIP-392)


def following(generation: str = "epoch") -> Bench:
    """Broker 0 follows broker 1 and has ab, of which it knows that a is committed."""
    bench = Bench(generation=generation, storage=disk((0, "ab"), high_watermark=1))
    bench.follow(1, epoch=0)
    if generation == "epoch":
        bench.told_epoch_end(0, 0, 2)
    return bench


def test_a_follower_answers_a_consumer_up_to_its_own_watermark() -> None:
    """The leader's watermark may be higher; the follower cannot know."""
    bench = following()
    response = bench.fetched(bench.consume(0, from_any=True))
    assert (response.error, letters(response), response.high_watermark) == (ErrorCode.NONE, "a", 1)
    beyond = bench.fetched(bench.consume(3, from_any=True))
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.fetched(bench.consume(0, epoch=7, from_any=True)).error is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_kip_392_only_the_leader_answers(generation: str) -> None:
    bench = following(generation)
    answer = bench.fetched(bench.consume(0, from_any=True))
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_that_waits_at_a_follower_is_released_by_the_watermark() -> None:
    """Not by the append: the record is committed when the leader says so."""
    bench = following()
    waiting = bench.consume(1, wait_ms=500, from_any=True)
    bench.fed(2, records("c", start=2), high_watermark=1)
    assert bench.is_parked(waiting)
    bench.fed(3, high_watermark=3)
    response = bench.fetched(waiting)
    assert (letters(response), response.high_watermark) == ("bc", 3)


def test_a_consumer_that_waits_at_a_follower_is_answered_in_time() -> None:
    bench = following()
    waiting = bench.consume(1, wait_ms=300, from_any=True)
    bench.pass_time(299)
    assert bench.is_parked(waiting)
    bench.pass_time(1)
    assert letters(bench.fetched(waiting)) == ""


@pytest.mark.parametrize("leads", [True, False])
def test_a_new_epoch_answers_consumers_that_wait_at_a_follower(leads: bool) -> None:
    """They ask again, and are fenced or served under the new epoch."""
    bench = following()
    waiting = bench.consume(1, wait_ms=500, from_any=True)
    bench.assign(0 if leads else 1, 1, (0, 1))
    response = bench.fetched(waiting)
    assert (response.error, letters(response)) == (ErrorCode.NONE, "")


def test_a_consumer_that_waits_at_a_follower_can_be_forgotten() -> None:
    bench = following()
    waiting = bench.consume(1, wait_ms=500, from_any=True)
    bench.core.withdraw_fetch(waiting, TP)
    bench.pass_time(1_000)
    assert bench.is_parked(waiting)


def test_the_end_of_the_log_as_consumers_and_followers_see_it() -> None:
    """ListOffsets: a consumer gets the watermark, but OFFSET_NOT_AVAILABLE (78) while a new leader cannot
    know it; a follower gets the log end."""
    bench = Bench(storage=disk((0, "abc"), high_watermark=1))
    bench.lead(epoch=1)
    for name, asker, answer in (
        ("early", CONSUMER, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
        ("follower", BrokerId(1), (ErrorCode.NONE, 3)),
    ):
        bench.hear(ListOffsetsRequest(tp=TP, replica=asker, current_leader_epoch=LeaderEpoch(1)), name)
        listed = bench.answer(name, ListOffsetsResponse)
        assert listed is not None
        assert (listed.error, listed.offset) == answer
    bench.fetch(1, 3)
    bench.hear(ListOffsetsRequest(tp=TP, replica=CONSUMER, current_leader_epoch=LeaderEpoch(1)), "late")
    listed = bench.answer("late", ListOffsetsResponse)
    assert listed is not None
    assert (listed.error, listed.offset) == (ErrorCode.NONE, 3)
