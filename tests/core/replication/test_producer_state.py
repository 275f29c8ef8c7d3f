"""Idempotent producers: one copy per sequence number, and a state that is a function of the log."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.harness import Bench

from tidelog.core.replication.producer_state import REMEMBERED_BATCHES, ProducerStates
from tidelog.core.types import UNKNOWN_OFFSET, LeaderEpoch
from tidelog.storage.memory import MemoryBatch, MemoryLog
from tidelog.wire.errors import ErrorCode

MAY_APPEND = (ErrorCode.NONE, UNKNOWN_OFFSET)


def batch(sequence: int, *, offset: int = 0, producer: int = 7, epoch: int = 0) -> MemoryBatch:
    return MemoryBatch("v", offset, LeaderEpoch(0), producer, epoch, sequence)


def after(*appended: MemoryBatch) -> ProducerStates:
    states = ProducerStates()
    for one in appended:
        states.append(one)
    return states


def test_an_unknown_producer_may_start_anywhere() -> None:
    """Nothing is known of it (new, or its state expired): KIP-360 takes any sequence."""
    states = after(batch(0, producer=1))
    assert states.check(batch(0)) == MAY_APPEND
    assert states.check(batch(41)) == MAY_APPEND


def test_the_next_sequence_is_taken() -> None:
    """In order means: exactly one past the last."""
    states = after(batch(0, offset=3), batch(1, offset=4))
    assert states.check(batch(2)) == MAY_APPEND


@pytest.mark.parametrize("age", range(REMEMBERED_BATCHES))
def test_a_duplicate_is_answered_with_its_first_offset(age: int) -> None:
    """A retry of any of the last five batches succeeds, at the offset of the first copy."""
    states = after(*(batch(n, offset=100 + 2 * n) for n in range(8)))
    sequence = 7 - age
    assert states.check(batch(sequence)) == (ErrorCode.NONE, 100 + 2 * sequence)


def test_a_duplicate_older_than_the_window_is_refused() -> None:
    """Five batches are remembered, because a client may have five in flight; older ones have no offset."""
    states = after(*(batch(n, offset=n) for n in range(6)))
    assert states.check(batch(1)) == (ErrorCode.NONE, 1)
    error, offset = states.check(batch(0))
    assert error is not ErrorCode.NONE
    assert offset == UNKNOWN_OFFSET


def test_a_gap_is_out_of_order() -> None:
    """A sequence beyond the next one means that a batch is missing: appending it would reorder them."""
    states = after(batch(0))
    assert states.check(batch(2)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_OFFSET)


@pytest.mark.parametrize("known", [0, 3])
def test_what_follows_a_batch_that_the_disk_refused_waits_for_it(known: int) -> None:
    """Five are in flight; the disk was full for the first. The others must not get an error that means lost
    records, nor be stored before it because their producer is still unknown."""
    states = after(*(batch(n, offset=n) for n in range(known)))
    states.turned_away(batch(known))
    for later in (known + 1, known + 2):
        assert states.check(batch(later)) == (ErrorCode.KAFKA_STORAGE_ERROR, UNKNOWN_OFFSET)
    assert states.check(batch(known)) == MAY_APPEND
    assert states.check(batch(0, epoch=1)) == MAY_APPEND, "who gives the batch up begins again"
    states.append(batch(known, offset=known))
    assert states.check(batch(known + 1)) == MAY_APPEND
    assert states.check(batch(known + 2))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("epoch", "sequence", "answer", "reason"),
    [
        (1, 2, (ErrorCode.INVALID_PRODUCER_EPOCH, UNKNOWN_OFFSET), "a zombie's next batch"),
        (1, 0, (ErrorCode.INVALID_PRODUCER_EPOCH, UNKNOWN_OFFSET), "even what would be a duplicate"),
        (2, 1, (ErrorCode.NONE, 5), "the same epoch, a duplicate"),
        (3, 0, MAY_APPEND, "a newer epoch starts over at 0"),
        (3, 2, (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_OFFSET), "and only at 0"),
    ],
)
def test_producer_epochs(epoch: int, sequence: int, answer: tuple[ErrorCode, int], reason: str) -> None:
    """An older epoch is fenced, a newer one starts over (KIP-98, KIP-360)."""
    states = after(batch(0, offset=4, epoch=2), batch(1, offset=5, epoch=2))
    assert states.check(batch(sequence, epoch=epoch)) == answer, reason


def test_a_new_epoch_forgets_the_old_sequences() -> None:
    """After the first batch of a new epoch, sequence 1 is next, whatever the old epoch had reached."""
    states = after(*(batch(n, offset=n) for n in range(4)), batch(0, offset=4, epoch=1))
    assert states.check(batch(1, epoch=1)) == MAY_APPEND
    assert states.check(batch(0, epoch=1)) == (ErrorCode.NONE, 4)
    assert states.check(batch(2, epoch=1))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def several(records: int, offset: int = 0, sequence: int = 0) -> MemoryBatch:
    """A batch of more than one record: sequence numbers count records."""
    return MemoryBatch("v", offset, LeaderEpoch(0), 7, 0, sequence, ("w",) * (records - 1))


@pytest.mark.parametrize(("records", "following"), [(1, 2**31 - 1), (2, 0), (3, 1), (5, 3)])
def test_sequence_numbers_wrap_around(records: int, following: int) -> None:
    """After 2^31 - 1 comes 0, also in the middle of a batch."""
    first = 2**31 - 2
    states = after(several(records, 10, first))
    assert states.check(batch(following)) == MAY_APPEND
    assert states.check(several(records, 0, first)) == (ErrorCode.NONE, 10)
    longer = several(records + 1, 0, first)
    assert states.check(longer)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "not all of it is there"
    assert states.check(batch(following + 1))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    (entry,) = states.entries()
    assert entry == (7, 0, (following - 1) % 2**31, 10 + records - 1, records - 1)


def test_the_end_of_a_transaction_counts_nothing() -> None:
    """A control batch has no sequence number. It may raise the epoch, and then the sequence starts over."""
    states = after(batch(0, offset=0), batch(1, offset=1), batch(-1, offset=2))
    assert states.check(batch(1)) == (ErrorCode.NONE, 1)
    assert states.check(batch(2)) == MAY_APPEND
    states.append(batch(-1, offset=3, epoch=1))
    assert states.check(batch(0, epoch=1)) == MAY_APPEND
    assert states.check(batch(2))[0] is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_written_down_is_enough_to_go_on() -> None:
    """A restart forgets all but the last batch of a producer: that one is known again, and so is the next."""
    states = after(*(batch(n, offset=20 + n, epoch=3) for n in range(4)))
    restored = ProducerStates()
    for entry in states.entries():
        restored.put(entry)
    assert restored.check(batch(3, epoch=3)) == (ErrorCode.NONE, 23)
    assert restored.check(batch(4, epoch=3)) == MAY_APPEND
    assert restored.check(batch(4, epoch=2))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    restored.forget(7)
    assert not restored


def test_producers_do_not_disturb_each_other() -> None:
    """Sequences are counted per producer id."""
    states = after(batch(0, offset=0, producer=1), batch(0, offset=1, producer=2))
    assert states.check(batch(0, producer=1)) == (ErrorCode.NONE, 0)
    assert states.check(batch(0, producer=2)) == (ErrorCode.NONE, 1)
    assert states.check(batch(1, producer=1)) == MAY_APPEND


def test_a_plain_producer_leaves_no_state() -> None:
    """Batches without a producer id are not counted."""
    states = after(MemoryBatch("v"))
    assert not states


# ---------------------------------------------------------------- the state follows the log


@st.composite
def logs(draw: st.DrawFn) -> list[MemoryBatch]:
    """A log that a leader could have taken: each producer's batches in sequence, epochs only rising."""
    states: dict[int, tuple[int, int]] = {}
    log: list[MemoryBatch] = []
    for _ in range(draw(st.integers(0, 25))):
        producer = draw(st.sampled_from([1, 2, -1]))
        if producer == -1:
            log.append(MemoryBatch("v", len(log)))
            continue
        epoch, sequence = states.get(producer, (0, draw(st.integers(0, 3))))
        if draw(st.booleans()) and draw(st.booleans()):
            epoch, sequence = epoch + 1, 0
        log.append(batch(sequence, offset=len(log), producer=producer, epoch=epoch))
        states[producer] = (epoch, sequence + 1)
    return log


def answers(states: ProducerStates) -> list[tuple[ErrorCode, int]]:
    """Everything a leader could be asked about these producers."""
    return [
        states.check(batch(sequence, producer=producer, epoch=epoch))
        for producer in (1, 2, 3)
        for epoch in range(5)
        for sequence in range(30)
    ]


@given(logs(), st.integers(0, 25))
def test_rebuilding_after_a_truncation_equals_growing_up_to_there(log: list[MemoryBatch], cut: int) -> None:
    """Truncate anywhere and restore: the answers are those of a replica that never went further."""
    stored = MemoryLog()
    batches = [stored.append_as_leader(batch, LeaderEpoch(0)) for batch in log]
    truncated = after(*batches)
    stored.truncate_to(cut)
    stored.restore_producers(truncated)
    assert answers(truncated) == answers(after(*batches[:cut]))


@given(logs())
def test_answers_match_a_plain_account_of_the_log(log: list[MemoryBatch]) -> None:
    """Against a model that reads the rules literally: the last five batches, the next sequence, the epoch."""
    states = after(*log)
    for producer in (1, 2):
        mine = [one for one in log if one.producer_id == producer]
        if not mine:
            assert states.check(batch(9, producer=producer)) == MAY_APPEND
            continue
        epoch = mine[-1].producer_epoch
        recent = deque((one for one in mine if one.producer_epoch == epoch), maxlen=5)
        for one in recent:
            again = batch(one.base_sequence, producer=producer, epoch=epoch)
            assert states.check(again) == (ErrorCode.NONE, one.base_offset)
        following = recent[-1].base_sequence + 1
        assert states.check(batch(following, producer=producer, epoch=epoch)) == MAY_APPEND


# ---------------------------------------------------------------- at the leader


def test_a_leader_appends_one_copy_and_answers_every_retry_with_its_offset() -> None:
    """acks=1: three sends of one sequence leave one record, and three answers with the same offset."""
    bench = Bench()
    bench.lead()
    bench.produce("a", acks=1)
    sent = [bench.produce("b", acks=1, sequence=0) for _ in range(3)]
    assert [bench.answer_to(token) for token in sent] == [(ErrorCode.NONE, 1)] * 3
    assert bench.values == "ab"


def test_a_retry_with_acks_all_waits_for_the_first_copy_to_be_committed() -> None:
    """A duplicate is no shortcut: it is acknowledged when the record itself is."""
    bench = Bench()
    bench.lead()
    first, retry = bench.produce("a", sequence=0), bench.produce("a", sequence=0)
    assert (bench.answer_to(first), bench.answer_to(retry)) == (None, None)
    bench.fetch(1, 1)
    assert bench.answer_to(first) == bench.answer_to(retry) == (ErrorCode.NONE, 0)
    assert bench.values == "a"


def test_a_gap_is_refused_and_nothing_is_appended() -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER (45), and the log is as it was."""
    bench = Bench()
    bench.lead()
    bench.produce("a", acks=1, sequence=0)
    refused = bench.produce("c", acks=1, sequence=2)
    assert bench.answer_to(refused) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert bench.values == "a"


def test_a_new_leader_knows_the_duplicates_it_fetched() -> None:
    """The state survives fail-over: a follower learns it from the records, so a retry at the new leader is
    answered with the old offset."""
    bench = Bench()
    bench.follow(1, epoch=0)
    bench.fed(0, [MemoryBatch("a", 0, LeaderEpoch(0), producer_id=7, producer_epoch=0, base_sequence=0)])
    bench.lead(epoch=1)
    retry = bench.produce("a", acks=1, sequence=0)
    assert bench.answer_to(retry) == (ErrorCode.NONE, 0)
    assert bench.values == "a"


def test_a_truncated_record_is_no_duplicate_any_more() -> None:
    """What a follower truncated, it no longer remembers: the producer's retry must be appended."""
    bench = Bench()
    bench.lead(epoch=0)
    bench.produce("a", acks=1, sequence=0)
    bench.produce("b", acks=1, sequence=1)
    bench.follow(1, epoch=1)
    bench.told_epoch_end(asked=0, found=0, end=1)
    assert bench.values == "a"
    bench.lead(epoch=2)
    retry = bench.produce("b", acks=1, sequence=1)
    assert bench.answer_to(retry) == (ErrorCode.NONE, 1)
    assert bench.values == "ab"


def test_a_restarted_broker_rebuilds_the_state_from_its_log() -> None:
    """The state is not stored anywhere else in the simulator: the log is enough."""
    bench = Bench()
    bench.lead()
    bench.produce("a", acks=1, sequence=0)
    again = Bench(storage=bench.storage)
    again.lead(epoch=1)
    retry = again.produce("a", acks=1, sequence=0)
    assert again.answer_to(retry) == (ErrorCode.NONE, 0)
    assert again.values == "a"
