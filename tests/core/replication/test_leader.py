"""A leader, fed by hand: the high watermark, acknowledgements and epochs of leadership."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.harness import CONTROLLER, TP, Bench, disk, leading, letters

from tidelog.core.events import BecameLeader, HighWatermarkAdvanced
from tidelog.core.messages import (
    ACKS_ALL,
    AlterIsrResponse,
    ProduceRequest,
)
from tidelog.core.types import NO_EPOCH, BrokerId, LeaderEpoch, TopicConfig, TopicPartition
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

TWO_IN_SYNC = TopicConfig(min_insync_replicas=2)


# ---------------------------------------------------------------- log end and high watermark


def test_an_append_moves_the_log_end_and_not_the_watermark() -> None:
    """The leader's own copy commits nothing while another replica is in sync."""
    bench = leading("ab")
    bench.produce("c")
    assert (bench.leo, bench.hw) == (3, 2)


def test_a_fetch_is_booked_before_its_answer_is_seen() -> None:
    """The fetch at 3 is the receipt for offset 2: watermark and acknowledgement move while the fetch itself
    is still parked, for there is nothing more to read."""
    bench = leading("ab")
    ack = bench.produce("c")
    receipt = bench.fetch(1, 3)
    assert bench.leader.followers[BrokerId(1)].log_end_offset == 3
    assert bench.hw == 3
    assert bench.answer_to(ack) == (ErrorCode.NONE, 2)
    assert bench.is_parked(receipt)


def test_two_rounds_one_carries_the_record_the_next_commits_it() -> None:
    """Round 1 (offset 2) brings c with the watermark 2; round 2 (offset 3) raises it to 3."""
    bench = leading("ab")
    ack = bench.produce("c")
    first = bench.fetched(bench.fetch(1, 2))
    assert (letters(first), first.high_watermark) == ("c", 2)
    assert (bench.hw, bench.answer_to(ack)) == (2, None)
    second = bench.fetch(1, 3)
    assert (bench.hw, bench.answer_to(ack)) == (3, (ErrorCode.NONE, 2))
    bench.pass_time(500)
    assert bench.fetched(second).high_watermark == 3


@pytest.mark.parametrize(
    ("isr", "ends", "high_watermark", "reason"),
    [
        ((0, 1, 2), {1: 3, 2: 1}, 1, "the slowest member decides"),
        ((0, 1, 2), {1: 3, 2: 3}, 3, "everybody has everything"),
        ((0, 1, 2), {1: 3}, 0, "a member that has not fetched yet is unknown and holds it back"),
        ((0, 1), {1: 2, 2: 0}, 2, "a replica outside the ISR does not count"),
        ((0,), {}, 3, "alone in the ISR, the leader commits alone"),
    ],
)
def test_the_watermark_is_the_smallest_log_end_in_sync(
    isr: tuple[int, ...], ends: dict[int, int], high_watermark: int, reason: str
) -> None:
    """HW = min LEO over the ISR."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(isr=isr)
    for value in "abc":
        bench.produce(value, acks=1)
    for follower, end in ends.items():
        bench.fetch(follower, end)
    assert bench.hw == high_watermark, reason


def test_a_follower_that_was_caught_up_a_moment_ago_still_counts() -> None:
    """Out of the ISR but caught up within replica.lag.time.max.ms, it holds the watermark back, so that it
    may come in again; after that time it no longer does, and the next append shows it."""
    bench = Bench(replicas=(0, 1))
    bench.lead(isr=(0,))
    bench.fetch(1, 0)
    bench.hear(
        AlterIsrResponse(tp=TP, error=ErrorCode.INELIGIBLE_REPLICA, leader_epoch=LeaderEpoch(0), number=1),
        CONTROLLER,
    )
    bench.produce("a", acks=1)
    assert bench.hw == 0
    bench.pass_time(45_001)
    assert bench.hw == 0
    bench.produce("b", acks=1)
    assert bench.hw == 2


@pytest.mark.parametrize("led_before", [False, True])
def test_a_follower_that_is_behind_when_an_epoch_begins_is_not_waited_for(led_before: bool) -> None:
    """Outside the ISR, it has caught up when it has what the leader has now, not what the leader had when the
    follower last fetched, in an epoch before or never."""
    if led_before:
        bench = Bench(replicas=(0, 1, 2))
        bench.lead()
        for follower in (1, 2):
            bench.fetch(follower, 0)
        bench.produce("a", acks=1)
    else:
        bench = Bench(replicas=(0, 1, 2), storage=disk((0, "a")))
    bench.lead(epoch=1, isr=(0, 1))
    bench.fetch(2, 0)
    assert bench.hw == 0
    bench.fetch(1, 1)
    assert bench.hw == 1


@pytest.mark.parametrize(("led_before", "high_watermark"), [(False, 3), (True, 2)])
def test_the_start_of_an_epoch_counts_as_a_fetch_only_for_a_leader_that_goes_on(
    led_before: bool, high_watermark: int
) -> None:
    """As in Kafka, a leader that continues in a new epoch takes a follower at the epoch's start for caught up
    at that time, and waits for it. A new leader knows of no earlier fetch."""
    bench = Bench(replicas=(0, 1, 2), storage=disk((0, "a")))
    if led_before:
        bench.lead(isr=(0, 1))
    bench.lead(epoch=1, isr=(0, 1))
    bench.produce("b", acks=1)
    bench.fetch(1, 2)
    assert bench.hw == 2
    bench.fetch(2, 1)
    bench.produce("c", acks=1)
    bench.fetch(1, 3)
    assert bench.hw == high_watermark


def test_the_watermark_never_goes_back_in_one_leadership() -> None:
    """A follower that lost its tail fetches from further down; what was committed stays committed."""
    bench = leading("abc")
    bench.fetch(1, 1)
    assert bench.leader.followers[BrokerId(1)].log_end_offset == 1
    assert bench.hw == 3
    bench.produce("d", acks=1)
    assert bench.hw == 3


@given(st.lists(st.tuples(st.sampled_from(["append", "fetch"]), st.integers(1, 2), st.integers(0, 6))))
def test_the_watermark_follows_the_plain_definition(moves: list[tuple[str, int, int]]) -> None:
    """Whatever followers fetch: never down, never above any member's last receipt at the time it rose."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead()
    ends = {1: -1, 2: -1}
    expected = 0
    for verb, follower, offset in moves:
        if verb == "append":
            bench.produce("x", acks=1)
        else:
            offset = min(offset, bench.leo)
            bench.fetch(follower, offset)
            ends[follower] = offset
        expected = max(expected, min(bench.leo, *ends.values()))
        assert bench.hw == expected


def test_a_new_leader_computes_the_watermark_at_once() -> None:
    """On becoming leader: alone in the ISR it commits its whole log, else it waits for fetches."""
    alone = Bench(storage=disk((0, "abc"), high_watermark=1))
    alone.lead(epoch=1, isr=(0,))
    assert alone.hw == 3
    with_others = Bench(storage=disk((0, "abc"), high_watermark=1))
    with_others.lead(epoch=1, isr=(0, 1))
    assert with_others.hw == 1
    with_others.fetch(1, 3)
    assert with_others.hw == 3


def test_a_new_epoch_without_the_slow_member_commits() -> None:
    """The controller took a dead replica out of the ISR: the same leader goes on and commits without it."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead()
    ack = bench.produce("a")
    bench.fetch(1, 1)
    assert bench.answer_to(ack) is None
    bench.lead(epoch=1, isr=(0, 1), version=1)
    assert bench.answer_to(ack) == (ErrorCode.NONE, 0)


def test_a_new_leadership_forgets_what_followers_had() -> None:
    """Between two leaderships a follower may have truncated: its old receipts are void."""
    bench = leading("abc")
    bench.follow(1, epoch=1)
    bench.lead(epoch=2)
    bench.produce("d", acks=1)
    assert bench.leader.followers[BrokerId(1)].log_end_offset == -1
    assert bench.hw == 3


def test_the_event_names_every_step_of_the_watermark() -> None:
    """Each rise is reported once, with where it came from."""
    bench = leading("ab")
    rises = bench.happened(HighWatermarkAdvanced)
    assert [(rise.before, rise.high_watermark, rise.epoch) for rise in rises] == [(0, 2, 0)]


# ---------------------------------------------------------------- acknowledgements


def test_acks_0_is_never_answered() -> None:
    """Not on success, not on refusal."""
    bench = leading()
    ok = bench.produce("a", acks=0)
    bench.fetch(1, 1)
    bench.follow(1, epoch=1)
    refused = bench.produce("b", acks=0)
    assert (bench.answer_to(ok), bench.answer_to(refused)) == (None, None)
    assert bench.values == "a"


def test_acks_1_is_answered_on_append() -> None:
    """The leader's own copy is enough, and the watermark has not moved."""
    bench = leading()
    assert bench.answer_to(bench.produce("a", acks=1)) == (ErrorCode.NONE, 0)
    assert bench.hw == 0


def test_acks_all_is_answered_in_the_order_of_commitment() -> None:
    """One fetch may complete several sends; each gets its own offset."""
    bench = leading()
    tokens = [bench.produce(value) for value in "abc"]
    bench.fetch(1, 2)
    assert [bench.answer_to(token) for token in tokens] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1), None]
    bench.fetch(1, 3)
    assert bench.answer_to(tokens[2]) == (ErrorCode.NONE, 2)


def test_acks_all_on_a_lone_replica_is_answered_at_once() -> None:
    """ "All" means the ISR, even if it is the leader alone."""
    bench = Bench(replicas=(0, 1))
    bench.lead(isr=(0,))
    assert bench.answer_to(bench.produce("a")) == (ErrorCode.NONE, 0)


def test_too_few_in_sync_before_the_append() -> None:
    """NOT_ENOUGH_REPLICAS (19) and nothing appended; acks=1 is not asked about replicas."""
    bench = Bench(topic=TWO_IN_SYNC)
    bench.lead(isr=(0,))
    assert bench.answer_to(bench.produce("a")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert bench.leo == 0
    assert bench.answer_to(bench.produce("b", acks=1)) == (ErrorCode.NONE, 0)


def test_too_few_in_sync_after_the_append() -> None:
    """The ISR shrank while the record waited: NOT_ENOUGH_REPLICAS_AFTER_APPEND (20), and it stays in the log,
    committed by those that are left."""
    bench = Bench(topic=TWO_IN_SYNC)
    bench.lead()
    ack = bench.produce("a")
    assert bench.answer_to(ack) is None
    bench.lead(epoch=1, isr=(0,), version=1)
    answer = bench.answer_to(ack)
    assert answer is not None
    assert answer[0] is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert (bench.values, bench.hw) == ("a", 1)


def test_a_member_that_is_only_proposed_counts_for_what_waits() -> None:
    """The high watermark has waited for it, too (KIP-497: the maximal ISR)."""
    bench = Bench(topic=TWO_IN_SYNC)
    bench.lead()
    ack = bench.produce("a", timeout_ms=60_000)
    bench.pass_time(45_000)
    proposal = bench.leader.proposal
    assert proposal is not None
    bench.hear(
        AlterIsrResponse(
            tp=TP,
            error=ErrorCode.NONE,
            leader_epoch=proposal.leader_epoch,
            isr=proposal.isr,
            version=1,
            number=proposal.number,
        ),
        CONTROLLER,
    )
    assert (bench.leader.isr, bench.answer_to(ack)) == ((0,), None)
    bench.fetch(1, 0)
    bench.fetch(1, 1)
    assert (bench.leader.isr, bench.leader.maximal_isr) == ((0,), (0, 1))
    assert bench.answer_to(ack) == (ErrorCode.NONE, 0)
    assert bench.answer_to(bench.produce("b")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)


def test_a_send_that_is_not_committed_in_time() -> None:
    """REQUEST_TIMED_OUT (7) at its deadline, not before, with the record's offset: it stays and may still be
    committed."""
    bench = leading()
    ack = bench.produce("a", timeout_ms=3_000)
    bench.pass_time(2_999)
    assert bench.answer_to(ack) is None
    bench.pass_time(1)
    assert bench.answer_to(ack) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert bench.values == "a"
    bench.fetch(1, 1)
    assert bench.hw == 1


def test_each_send_has_a_deadline_of_its_own() -> None:
    """A short one behind a long one is not late, and the long one goes on waiting."""
    bench = leading()
    long, short = bench.produce("a", timeout_ms=3_000), bench.produce("b", timeout_ms=1_000)
    bench.pass_time(1_000)
    assert bench.answer_to(short) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert bench.answer_to(long) is None
    bench.fetch(1, 2)
    assert bench.answer_to(long) == (ErrorCode.NONE, 0)


def test_leadership_lost_while_parked() -> None:
    """Waiting requests get NOT_LEADER_OR_FOLLOWER (6): of producers, followers and consumers."""
    bench = leading("a")
    ack = bench.produce("b")
    follower = bench.fetch(1, 2)
    bench.produce("c")
    waiting = bench.fetch(1, 3)
    consumer = bench.consume(3, wait_ms=500)
    bench.follow(1, epoch=1)
    assert bench.answer_to(ack) == (ErrorCode.NONE, 1)
    assert bench.fetched(follower).error is ErrorCode.NONE
    for token in (waiting, consumer):
        assert bench.fetched(token).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_unanswered_send_is_told_that_the_leader_is_gone() -> None:
    """The record may or may not survive: error 6, with the offset that it had."""
    bench = leading("a")
    ack = bench.produce("b")
    bench.follow(1, epoch=1)
    assert bench.answer_to(ack) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    bench.pass_time(10_000)
    assert bench.answer_to(ack) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


def test_sends_to_somebody_who_does_not_lead() -> None:
    """A follower answers 6, a broker that has never heard of the partition 3."""
    bench = Bench()
    bench.follow(1, epoch=0)
    assert bench.answer_to(bench.produce("a")) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    bench.hear(ProduceRequest(TopicPartition("u", 0), ACKS_ALL, MemoryBatch("a"), 1_000), "stranger")
    assert bench.answer_to("stranger") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


# ---------------------------------------------------------------- epochs of leadership


@pytest.mark.parametrize(
    ("generation", "at_once", "after_a_record"),
    [
        ("epoch", [(4, 0)], [(4, 0)]),
        ("kip101", [], [(4, 0)]),
        ("hw", [], []),
        ("majority", [(4, 0)], [(4, 0)]),
    ],
)
def test_when_a_leader_writes_its_epoch_down(
    generation: str, at_once: list[tuple[int, int]], after_a_record: list[tuple[int, int]]
) -> None:
    """Since KAFKA-7415 on becoming leader, before that with the first record, before 0.11 never."""
    bench = Bench(generation=generation)
    bench.lead(epoch=4)
    assert bench.epochs == at_once
    bench.produce("a", acks=1)
    assert bench.epochs == after_a_record
    stamps = {batch.leader_epoch for batch in bench.storage.open(TP).batches}
    assert stamps == ({NO_EPOCH} if generation == "hw" else {4})


def test_leader_and_isr_counts_only_if_newer() -> None:
    """The same epoch again, or an older one, changes nothing: late requests are harmless."""
    bench = Bench(replicas=(0, 1, 2))
    bench.lead(epoch=3, isr=(0, 1, 2))
    for epoch in (3, 2):
        bench.assign(1, epoch, (1,))
    assert (bench.leader.epoch, bench.leader.isr) == (3, (0, 1, 2))
    assert len(bench.happened(BecameLeader)) == 1


def test_nobody_follows_a_leader_that_is_not_alive() -> None:
    """Becoming follower of a broker that metadata does not list as alive is skipped, old epoch and all."""
    bench = Bench(replicas=(0, 7))
    bench.lead(epoch=3)
    bench.assign(7, 4, (7,))
    assert bench.leader.epoch == 3


def test_majority_opens_its_epoch_with_a_control_record() -> None:
    """Nothing is exposed before a record of the own epoch is on a majority (Raft §5.4.2, KIP-595)."""
    bench = Bench(generation="majority", storage=disk((0, "ab"), high_watermark=0), replicas=(0, 1, 2))
    bench.lead(epoch=1)
    assert bench.values == "ab·"
    bench.fetch(1, 2)
    assert bench.hw == 0
    bench.fetch(1, 3)
    assert bench.hw == 3


def test_majority_commits_without_the_slowest() -> None:
    """Two of three are enough, in whatever order; min.insync.replicas has no meaning."""
    bench = Bench(generation="majority", topic=TopicConfig(min_insync_replicas=3), replicas=(0, 1, 2))
    bench.lead()
    ack = bench.produce("a")
    bench.fetch(2, 2)
    assert bench.answer_to(ack) == (ErrorCode.NONE, 1)
    assert bench.hw == 2
