"""The marks on an axis."""

from __future__ import annotations

import math
from typing import Final

from tidelog.narrate.numbers import moment

_STEPS: Final = (1, 2, 5)
_TIMES_MS: Final = (
    *(unit * step for unit in (1, 10, 100) for step in _STEPS),
    *(1000 * step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600)),
    *(86_400_000 * step for step in (1, 2, 5, 10, 20, 50, 100)),
)


def time_marks(span_ms: int, most: int = 10) -> list[tuple[int, str]]:
    """A bounded number of moments, evenly apart, in a round unit."""
    step = next((step for step in _TIMES_MS if span_ms / step <= most), span_ms // most + 1)
    return [(at, moment(at) if at else "0") for at in range(0, span_ms + 1, step)]


def value_marks(high: float, most: int = 4) -> list[float]:
    """From 0 to the first round number that is not below `high`."""
    if high <= 0:
        return [0.0, 1.0]
    step = _round_up(high / most)
    return [step * n for n in range(math.ceil(high / step - 1e-9) + 1)]


def _round_up(value: float) -> float:
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * step for step in (*_STEPS, 10) if size * step >= value * (1 - 1e-9))


def decades(low: float, high: float) -> list[float]:
    """Powers of ten around a range, for a logarithmic axis."""
    first = math.floor(math.log10(max(low, 0.1)) + 1e-9)
    last = max(math.ceil(math.log10(max(high, 0.1)) - 1e-9), first + 1)
    return [10.0**power for power in range(first, last + 1)]
