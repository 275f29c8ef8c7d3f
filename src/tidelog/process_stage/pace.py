"""Scenario time and real time.

Scenario files speak of seconds: sessions of six, checkpoints every five. On real processes all of them, the
settings of brokers, the time-outs of clients and the pauses of the scenario, pass faster by one factor, so
that what comes before what stays as it is. Only the machine's own pace cannot be scaled: the faster a
scenario is played, the less a busy machine may dawdle.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tidelog.core.types import Millis

FACTORS = (0.25, 0.5, 1.0)
"""The first is for a machine that has little else to do: sessions of 1.5 s, within which a broker must be
able to start. The others are for when that was too fast."""
FACTOR_MIN, FACTOR_MAX = 0.05, 4.0
BUSY = (8.0, 24.0)
"""From so many runnable processes for each core on, the second and the third."""


@dataclass(slots=True, frozen=True)
class Pace:
    factor: float = FACTORS[0]
    """Real seconds that a second of the scenario takes."""

    def seconds(self, scenario_ms: float) -> float:
        return scenario_ms * self.factor / 1000

    def ms(self, scenario_ms: float) -> int:
        """As a setting: a whole number, and never none at all."""
        return max(round(scenario_ms * self.factor), 1)

    def scenario_ms(self, seconds: float) -> Millis:
        return int(seconds * 1000 / self.factor)


def suitable_paces() -> list[Pace]:
    """The pace that this machine can keep at the moment, and the slower ones to fall back on."""
    try:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        load = 0.0
    first = sum(load > busy for busy in BUSY)
    return [Pace(factor) for factor in FACTORS[first:]]
