"""How many bytes a second may pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.replication_quota import SAMPLE_MS, SAMPLES, Quota

WINDOW_MS = SAMPLES * SAMPLE_MS


def test_a_quota_is_exceeded_until_the_time_has_passed_that_its_bytes_take() -> None:
    quota = Quota(1_000)
    assert (quota.is_exceeded(0), quota.wait_ms(0)) == (False, 0)
    quota.add(3_000, 0)
    assert [quota.is_exceeded(at) for at in (0, 1_000, 2_999, 3_000)] == [True, True, True, False]
    assert [quota.wait_ms(at) for at in (0, 2_500, 2_999, 3_000)] == [SAMPLE_MS, 500, 1, 0]


def test_a_second_is_the_least_time_that_counts() -> None:
    """So that a piece at the beginning is no rate of millions."""
    quota = Quota(1_000)
    quota.add(1_000, 7)
    assert not quota.is_exceeded(7)
    quota.add(1, 7)
    assert quota.is_exceeded(7)
    assert not quota.is_exceeded(1_008)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    quota = Quota(1)
    quota.add(1_000_000, 0)
    assert quota.is_exceeded(WINDOW_MS - 1)
    assert not quota.is_exceeded(WINDOW_MS)
    quota.add(1, WINDOW_MS)
    assert not quota.is_exceeded(WINDOW_MS)


def test_another_rate_counts_at_once_and_without_one_everything_passes() -> None:
    quota = Quota()
    quota.add(1 << 40, 0)
    assert not quota.is_exceeded(0)
    quota.rate = 1_000
    assert quota.is_exceeded(0)
    quota.rate = 1 << 41
    assert not quota.is_exceeded(0)


def test_a_rate_of_nothing_lets_pass_what_cannot_be_held_back_and_no_more() -> None:
    quota = Quota(0)
    assert not quota.is_exceeded(0)
    quota.add(1, 0)
    assert quota.is_exceeded(WINDOW_MS - 1)
    assert quota.wait_ms(5) == SAMPLE_MS


@given(
    rate=st.integers(1, 5_000),
    steps=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 5_000)), max_size=80),
)
def test_no_window_has_more_than_the_quota_and_one_piece(rate: int, steps: list[tuple[int, int]]) -> None:
    """For one who asks before each piece, whenever that is; and who waits as long as it is told gets on."""
    quota, now = Quota(rate), 0
    passed: list[tuple[int, int]] = []
    for pause, size in steps:
        now += pause
        while wait := quota.wait_ms(now):
            assert 0 < wait <= SAMPLE_MS
            now += wait
        assert not quota.is_exceeded(now)
        quota.add(size, now)
        passed.append((now, size))
    for number, (end, piece) in enumerate(passed):
        recent = [size for at, size in passed[:number] if at > end - WINDOW_MS + SAMPLE_MS]
        assert sum(recent) * 1_000 <= rate * WINDOW_MS, f"before {piece} at {end}"
