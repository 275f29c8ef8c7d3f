"""How sure a share is: against values known from the literature, and against chance itself."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.pipeline.sweep.intervals import Share, percent


def test_wilson_agrees_with_published_values() -> None:
    """Newcombe (1998) gives Wilson's interval for 81 of 263 and for 15 of 148."""
    assert (Share(81, 263).low, Share(81, 263).high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert (Share(15, 148).low, Share(15, 148).high) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_never_is_said_with_a_bound() -> None:
    """Zero of n is the rule of three, and says how often it was tried."""
    assert Share(0, 12_000).words() == "never in 12,000: < 0.025 %"
    assert Share(0, 0).words() == "never tried"
    assert Share(0, 2).high == 1.0


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share(numbers: tuple[int, int]) -> None:
    """Low ≤ share ≤ high, all of them between 0 and 1."""
    share = Share(*numbers)
    assert share.value is not None
    assert 0.0 <= share.low <= share.value <= share.high <= 1.0


def test_95_of_100_intervals_hold_the_truth() -> None:
    """Of many samples with a known chance, about 95 in 100 give an interval around it."""
    dice = Random(1)
    hits = 0
    for _ in range(1_000):
        share = Share(sum(dice.random() < 0.03 for _ in range(400)), 400)
        hits += share.low <= 0.03 <= share.high
    assert 920 <= hits <= 985


def test_percent_has_two_digits_that_matter() -> None:
    """Whatever the size."""
    assert [percent(x) for x in (0.0, 0.00025, 0.0123, 0.5, 1.0, 0.00000123)] == [
        "0 %",
        "0.025 %",
        "1.2 %",
        "50 %",
        "100 %",
        "0.00012 %",
    ]
