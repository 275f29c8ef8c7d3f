"""The end of a log in memory: a suffix, within its bounds, holding no more memory than it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.storage.batches import batch

from tidelog.storage.log.tail import Tail, TailBudget
from tidelog.wire.batch import RecordBatch


def stored(offset: int, size: int, records: int = 1) -> RecordBatch:
    one = batch(*(["x" * size] * records))
    one.stamp(offset, 0)
    return one


def tail_of(sizes: list[int], limit: int = 1 << 20) -> tuple[Tail, list[RecordBatch]]:
    tail, batches, offset = Tail(0, TailBudget(), limit), [], 0
    for size in sizes:
        batches.append(stored(offset, size % 97, 1 + size % 3))
        offset = batches[-1].next_offset
        tail.push(batches[-1])
    return tail, batches


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    limit=st.sampled_from([0, 2_000, 1 << 20]),
    start=st.integers(0, 60),
    end=st.integers(0, 90),
    max_bytes=st.integers(1, 2_000),
)
def test_reads_agree_with_a_scan(sizes: list[int], limit: int, start: int, end: int, max_bytes: int) -> None:
    """Whole batches from the one that holds the start, none beyond the end, the first whatever its size."""
    tail, batches = tail_of(sizes, limit)
    start = max(start, tail.first_offset)
    expected: list[RecordBatch] = []
    for one in batches:
        if one.next_offset > start and start < end and one.next_offset <= end:
            if expected and sum(b.size for b in expected) + one.size > max_bytes:
                break
            expected.append(one)
    assert tail.read(start, end, max_bytes) == expected


@given(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30), cut=st.integers(0, 30))
def test_truncation_leaves_a_suffix_of_what_is_left(sizes: list[int], cut: int) -> None:
    """Up to a batch's beginning; below everything it holds, the tail is empty and begins there."""
    tail, batches = tail_of(sizes, 3_000)
    first = tail.first_offset
    end = batches[min(cut, len(batches) - 1)].base_offset
    tail.truncate(end)
    left = [one for one in batches if first <= one.base_offset and one.next_offset <= end]
    assert tail.first_offset == (left[0].base_offset if left else min(end, max(first, end)))
    assert tail.read(tail.first_offset, end, 1 << 30) == left
    again = stored(end, 5)
    tail.push(again)
    assert tail.read(end, end + 1, 1 << 30) == [again]


def test_a_tail_keeps_to_its_limit() -> None:
    """The oldest go first; the limit counts what a batch costs besides its bytes."""
    tail, batches = tail_of([50] * 100, 4_000)
    assert 0 < tail.bytes <= 4_000
    assert tail.first_offset > 0
    assert tail.read(tail.first_offset, batches[-1].next_offset, 1 << 30)[-1] is batches[-1]


def test_all_tails_share_a_budget() -> None:
    """When it is used up every tail keeps an equal share, so the small ones lose nothing."""
    budget = TailBudget(20_000)
    busy, idle = Tail(0, budget), Tail(0, budget)
    idle.push(stored(0, 10))
    for n in range(200):
        busy.push(stored(n, 100))
        assert budget.used == busy.bytes + idle.bytes
        assert budget.used <= 20_000
    assert idle.first_offset == 0
    budget.leave(busy)
    assert budget.used == idle.bytes


def test_a_small_slice_does_not_hold_a_large_request() -> None:
    """It is copied; a batch that is most of its buffer is not."""
    content = bytes(stored(0, 100).data)
    tail = Tail(0, TailBudget())
    small_part = RecordBatch.parse(bytearray(content + bytes(1_000)))
    tail.push(small_part)
    assert len(small_part.data.obj) == len(content)  # type: ignore[arg-type]
    assert bytes(small_part.data) == content
    most = RecordBatch.parse(bytearray(content + bytes(20)))
    tail.push(most)
    assert len(most.data.obj) == len(content) + 20  # type: ignore[arg-type]
