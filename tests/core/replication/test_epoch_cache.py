"""The epoch cache answers as KIP-101 and KIP-279 say, and truncation by those answers never keeps a fork."""

from itertools import pairwise

import pytest
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st
from tests.core.histories import REPLICAS, History, Reign, reigns
from tests.effort import tries

from tidelog.core.replication.epoch_cache import UNDEFINED_END, EpochCache, EpochEnd, EpochEntry
from tidelog.core.types import NO_EPOCH, LeaderEpoch


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache([EpochEntry(LeaderEpoch(epoch), start) for epoch, start in entries])


def pairs(of: EpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in of.entries]


# ---------------------------------------------------------------- where does an epoch end?


@pytest.mark.parametrize(
    ("asked", "answer", "reason"),
    [
        (NO_EPOCH, UNDEFINED_END, "records older than epochs: only the high watermark can help"),
        (
            1,
            EpochEnd(LeaderEpoch(1), 3),
            "older than every entry: whatever it had ends before our first record",
        ),
        (2, EpochEnd(LeaderEpoch(2), 5), "a known epoch ends where the next one starts"),
        (
            3,
            EpochEnd(LeaderEpoch(2), 5),
            "an unknown epoch in a gap: the largest below it, and that one's end",
        ),
        (4, EpochEnd(LeaderEpoch(2), 5), "every epoch of the gap gets the same answer"),
        (5, EpochEnd(LeaderEpoch(5), 9), "a known epoch in the middle"),
        (7, EpochEnd(LeaderEpoch(7), 12), "the latest epoch has no end yet but the end of the log"),
        (8, UNDEFINED_END, "an epoch never heard of: guessing could keep a stale suffix"),
    ],
)
def test_end_of_an_epoch(asked: int, answer: EpochEnd, reason: str) -> None:
    """Each case of Kafka's endOffsetFor, with its reason."""
    known = cache((2, 3), (5, 5), (7, 9))
    assert known.end_offset_for(LeaderEpoch(asked), log_end_offset=12) == answer, reason


@pytest.mark.parametrize("asked", [NO_EPOCH, 0, 1, 5])
def test_an_empty_cache_knows_no_end(asked: int) -> None:
    """Without entries every answer is undefined, even for epoch 0 of an empty log."""
    assert cache().end_offset_for(LeaderEpoch(asked), log_end_offset=0) == UNDEFINED_END
    assert cache().latest_epoch == NO_EPOCH


def test_an_epoch_without_records_ends_where_it_starts() -> None:
    """A leader that wrote nothing still answers for its epoch: its end is its start, which is the log end."""
    known = cache((0, 0), (1, 4))
    assert known.end_offset_for(LeaderEpoch(1), log_end_offset=4) == EpochEnd(LeaderEpoch(1), 4)
    assert known.end_offset_for(LeaderEpoch(0), log_end_offset=4) == EpochEnd(LeaderEpoch(0), 4)


# ---------------------------------------------------------------- assign and truncate


@pytest.mark.parametrize(
    ("before", "epoch", "start", "after", "reason"),
    [
        ([], 3, 0, [(3, 0)], "the first epoch"),
        ([(1, 0)], 2, 4, [(1, 0), (2, 4)], "a newer epoch at a later offset"),
        ([(1, 0)], 1, 4, [(1, 0)], "an epoch keeps its first start"),
        ([(1, 0), (2, 4)], 3, 4, [(1, 0), (3, 4)], "an epoch that held no record gives way"),
        ([(1, 0), (2, 4)], 3, 2, [(1, 0), (3, 2)], "so does one that starts beyond the new one"),
        ([(1, 0), (2, 4), (5, 6)], 3, 6, [(1, 0), (2, 4), (3, 6)], "and one that is newer"),
        ([(1, 2), (2, 4)], 4, 0, [(4, 0)], "nothing that starts at or above the new start stays"),
        ([(1, 3)], 1, 2, [(1, 2)], "the same epoch, seen to start earlier"),
    ],
)
def test_assign(
    before: list[tuple[int, int]], epoch: int, start: int, after: list[tuple[int, int]], reason: str
) -> None:
    """A new entry drives out the ones it contradicts: not older, or not starting below it."""
    known = cache(*before)
    known.assign(LeaderEpoch(epoch), start)
    assert pairs(known) == after, reason


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (10, [(1, 0), (2, 4), (5, 6)]),
        (7, [(1, 0), (2, 4), (5, 6)]),
        (6, [(1, 0), (2, 4)]),
        (5, [(1, 0), (2, 4)]),
        (4, [(1, 0)]),
        (1, [(1, 0)]),
        (0, []),
    ],
)
def test_truncating_forgets_epochs_whose_records_are_gone(end: int, left: list[tuple[int, int]]) -> None:
    """An epoch that starts exactly at the new end holds no record any more and goes too."""
    known = cache((1, 0), (2, 4), (5, 6))
    known.truncate_from_end(end)
    assert pairs(known) == left


small = st.integers(0, 12)


@given(st.lists(st.tuples(st.sampled_from(["assign", "truncate"]), small, small), max_size=30))
def test_entries_increase_in_both_fields(operations: list[tuple[str, int, int]]) -> None:
    """Whatever is assigned and truncated, epochs and start offsets are strictly increasing."""
    known = cache()
    for verb, epoch, offset in operations:
        if verb == "assign":
            known.assign(LeaderEpoch(epoch), offset)
        else:
            known.truncate_from_end(offset)
        for before, after in pairwise(known.entries):
            assert before.epoch < after.epoch
            assert before.start_offset < after.start_offset
        assert len(known) == len(known.entries)


@given(st.lists(st.tuples(small, small), max_size=12), st.integers(-1, 14), st.integers(-1, 14))
def test_older_epochs_never_end_later(entries: list[tuple[int, int]], one: int, other: int) -> None:
    """Where both are defined, the end of an older epoch is not beyond the end of a newer one."""
    known = cache()
    for epoch, start in entries:
        known.assign(LeaderEpoch(epoch), start)
    older, newer = (
        known.end_offset_for(LeaderEpoch(asked), log_end_offset=20) for asked in sorted((one, other))
    )
    if UNDEFINED_END not in (older, newer):
        assert older.end_offset <= newer.end_offset
        assert older.epoch <= newer.epoch


# ---------------------------------------------------------------- what truncation by epochs is worth


# A follower whose own empty epoch lies above the one the leader names: it must ask again about an older one.
EMPTY_EPOCH_ABOVE = [
    Reign(0, 1, (None, None, None)),
    Reign(2, 1, (None, None, None)),
    Reign(0, 0, (None, None, None)),
    Reign(2, 0, (0, None, None)),
]
# A follower that led without writing fetches a record of an older epoch, which must keep its first start.
EMPTY_EPOCH_BETWEEN = [
    Reign(0, 3, (None, 1, None)),
    Reign(1, 3, (None, None, 3)),
    Reign(2, 0, (None, None, None)),
    Reign(1, 0, (None, None, 3)),
    Reign(2, 0, (0, None, None)),
]


@pytest.mark.parametrize("generation", ["epoch", "majority"])
@settings(max_examples=tries(60))
@given(history=st.lists(reigns("restart", "power cut", "sync"), max_size=9))
@example(history=EMPTY_EPOCH_ABOVE)
@example(history=EMPTY_EPOCH_BETWEEN)
def test_truncation_by_epoch_never_keeps_a_fork(generation: str, history: list[Reign]) -> None:
    """However leaders came and went, a follower's log ends within the longest common prefix after truncation
    (KIP-279): the real rules of the follower against the real answers of the leader."""
    played = History(generation)
    played.play(history)
    assert played.above_agreement == []


def _keeps_a_fork(generation: str, history: list[Reign]) -> bool:
    played = History(generation)
    played.play(history)
    return bool(played.above_agreement)


@pytest.mark.parametrize("generation", ["kip101", "hw"])
def test_older_rules_can_keep_a_fork(generation: str) -> None:
    """Asking once (KIP-101) or trusting the own watermark (0.10) keeps records the leader never had, and it
    takes no power cut: elections in an unlucky order are enough."""
    found = find(
        st.lists(reigns(), min_size=1, max_size=6),
        lambda history: _keeps_a_fork(generation, history),
        settings=settings(max_examples=2_000, deadline=None, derandomize=True, phases=[Phase.generate]),
    )
    assert _keeps_a_fork(generation, found)
    assert not _keeps_a_fork("majority", found)


def test_kip_279_is_the_fork_that_one_question_misses() -> None:
    """The schedule of KAFKA-6361: the follower's epoch is unknown to the leader, which names the next one."""
    history = [
        Reign(0, 1, (None, 1, None)),  # a on 0 and 1
        Reign(0, 1, (None, None, None)),  # b on 0 only
        Reign(1, 2, (None, None, None)),  # c, d on 1
        Reign(0, 1, (None, None, None)),  # e on 0, after b
        Reign(0, 0, (None, 3, None)),  # 1 asks where its epoch ended
    ]
    once, again = History("kip101"), History("epoch")
    once.play(history)
    again.play(history)
    assert once.above_agreement == ["epoch 4: 1 keeps 2, 0 has 1 of them"]
    assert again.above_agreement == []
    assert again.agreement(0, 1) == 3
    assert [len(again.records(broker)) for broker in REPLICAS] == [3, 3, 0]
