"""Scenario time and real time.

Scenario files speak of seconds: sessions of six, checkpoints every five. On real processes all of them, the
settings of brokers, the time-outs of clients and the pauses of the scenario, pass faster by one factor, so
that what comes before what stays as it is. Only the machine's own pace cannot be scaled: the faster a
scenario is played, the less a busy machine may dawdle.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.types import Millis

FACTOR = 0.25
"""Sessions of 1.5 s: a Python process that shares two cores with four others is heard often enough."""
SLOWER = (FACTOR, 0.5, 1.0)
"""What to try when a machine was too busy for the pace before."""


@dataclass(slots=True, frozen=True)
class Pace:
    factor: float = FACTOR
    """Real seconds that a second of the scenario takes."""

    def seconds(self, scenario_ms: float) -> float:
        return scenario_ms * self.factor / 1000

    def ms(self, scenario_ms: float) -> int:
        """As a setting: a whole number, and never none at all."""
        return max(round(scenario_ms * self.factor), 1)

    def scenario_ms(self, seconds: float) -> Millis:
        return int(seconds * 1000 / self.factor)
