"""Faults that follow each other so that rules of old, or lax ones, lose what they promised.

Faults drawn one by one seldom meet at the right moment. An ordeal is a few of them in a fixed order, on
brokers that the dice choose. They are ordinary faults in the schedule, and are undone like any other.

* `chain`, for the generation ``hw``. The link from a leader to its followers is slow, so they hear late how
  far all had come. It dies. Of the two others one is elected; the other throws away what it does not know to
  be committed, and does not get it again, for its fetches are held. Then the elected one dies too, and the
  one that is left is in the ISR (KIP-101). Nothing else between them is held: either may be the controller.
* `strangers`, for unclean elections. A broker is away while the others go on. Then they die together, and it
  comes back: it leads, with what it had.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

CHAIN: Final = "chain"
STRANGERS: Final = "strangers"
BROKERS_MIN: Final = 3
_LATE_MS: Final = 300


class Step(NamedTuple):
    kind: str
    targets: tuple[str, ...]
    after_ms: int
    duration_ms: int


def steps(name: str, dice: random.Random, brokers: Sequence[int], session_ms: int) -> list[Step]:
    """What happens, and how long after the beginning. `brokers`: at least `BROKERS_MIN`."""
    chosen = [str(broker) for broker in dice.sample(sorted(brokers), len(brokers))]
    return _chain(chosen, session_ms) if name == CHAIN else _strangers(chosen, session_ms)


def _chain(brokers: list[str], session_ms: int) -> list[Step]:
    leader, elected, *rest = brokers
    late = tuple(f"{leader}>{other}" for other in (elected, *rest))
    unheard = tuple(f"{other}>{elected}" for other in rest)
    dies = session_ms  # time for everyone to be led by his preferred leader, and to be late
    return [
        Step("elect", (), 0, 0),
        Step("delay", (*late, f"{_LATE_MS}ms"), dies // 3, dies),
        Step("hold", unheard, dies, 2 * session_ms + session_ms // 2),
        Step("kill", (leader,), dies + 50, 4 * session_ms),
        # The elected one leads by now, and has not yet found out that nobody follows.
        Step("kill", (elected,), dies + 2 * session_ms, 2 * session_ms + 100),
    ]


def _strangers(brokers: list[str], session_ms: int) -> list[Step]:
    stranger, *others = brokers
    die = 2 * session_ms  # the ISR has been without the stranger for a while
    return [
        Step("kill", (stranger,), 0, die + 400),
        *(Step("kill", (other,), die + 50 * number, 2 * session_ms) for number, other in enumerate(others)),
    ]
