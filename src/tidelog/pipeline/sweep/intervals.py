"""How sure a share is: Wilson's interval, and the rule of three for what never happened.

k failures in n trials say more about a large n. Wilson's interval (1927) stays inside 0 to 1 and is honest
for shares near the ends, where the textbook's interval is not. For k = 0 it is kept simple: with 95 %
confidence the true share is below 3/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

_Z = 1.959964
"""Of 95 %."""


@dataclass(slots=True, frozen=True)
class Share:
    """``count`` of ``trials``, and between which bounds the true share lies, with 95 % confidence."""

    count: int
    trials: int

    @property
    def value(self) -> float | None:
        return self.count / self.trials if self.trials else None

    @property
    def low(self) -> float:
        return 0.0 if self.count == 0 else self._wilson()[0]

    @property
    def high(self) -> float:
        if self.trials == 0:
            return 1.0
        if self.count == 0:
            return min(1.0, 3 / self.trials)
        return max(self._wilson()[1], self.count / self.trials)  # which rounding may miss by a hair

    def _wilson(self) -> tuple[float, float]:
        n, share, square = self.trials, self.count / self.trials, _Z * _Z
        middle = (share + square / (2 * n)) / (1 + square / n)
        half = _Z / (1 + square / n) * sqrt(share * (1 - share) / n + square / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def words(self) -> str:
        """`never in 12,000: < 0.025 %`, or `3.1 % (2.2–4.4)`."""
        if self.trials == 0:
            return "never tried"
        if self.count == 0:
            return f"never in {self.trials:,}: < {percent(self.high)}"
        low, high = percent(self.low).removesuffix(" %"), percent(self.high).removesuffix(" %")
        return f"{percent(self.count / self.trials)} ({low}–{high})"


def percent(share: float) -> str:
    """Two significant digits are as many as these numbers deserve."""
    value = share * 100
    if value >= 9.95:
        return f"{value:.0f} %"
    if value >= 0.995:
        return f"{value:.1f} %"
    if value >= 0.0995:
        return f"{value:.2f} %"
    return f"{value:.2g} %" if value else "0 %"
