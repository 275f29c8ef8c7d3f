"""The check of headers, against a plain account of the same records."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidelog.ledger import Continuity, Flaw
from tidelog.ledger.identity import HEADER, pack_header

NUMBERS = st.lists(st.integers(0, 30), max_size=40)


def seen(numbers: list[int], value: bytes = b"v", read: bytes = b"v") -> Continuity:
    found = Continuity()
    for offset, number in enumerate(numbers):
        found.add("t", 0, offset, read, [(HEADER, pack_header(1, number, crc32c(value)))])
    return found


@given(NUMBERS)
def test_any_order(numbers: list[int]) -> None:
    """Missing, repeated and out of order, whatever comes when."""
    found = seen(numbers)
    new = [number for at, number in enumerate(numbers) if number not in numbers[:at]]
    late = [number for at, number in enumerate(new) if any(before > number for before in new[:at])]
    missing = set(range(max(numbers, default=-1) + 1)) - set(numbers)
    stream = found.streams.get(f"{1:016x}")
    assert (stream is None) == (not numbers)
    if stream is not None:
        assert {number for each in stream.missing for number in each} == missing
        assert stream.repeated == len(numbers) - len(new)
        assert stream.out_of_order == len(late)
        assert [flawed.first for flawed in found.flaws() if flawed.flaw is Flaw.OUT_OF_ORDER] == late
    assert found.is_whole == (numbers == sorted(set(numbers)) and not missing)


def test_a_changed_value() -> None:
    (flawed,) = seen([0], read=b"w").flaws()
    assert (flawed.flaw, flawed.first, flawed.offset) == (Flaw.CHANGED, 0, 0)


def test_only_the_first_flaws_are_named() -> None:
    """Memory is bounded, the counts are not."""
    found = seen([0] * 5000)
    assert found.streams[f"{1:016x}"].repeated == 4999
    assert len(list(found.flaws())) == 1000
