"""Faults that follow each other so that rules of old, or lax ones, lose what they promised.

Faults drawn one by one seldom meet at the right moment. A sequence is a few of them in a fixed order, on
brokers that the dice choose. They are ordinary faults in the schedule, and are undone like any other.

* `two_leaders_die`, for the generation ``hw``. The link from a leader to its followers is slow, so they learn
  late what is committed. The leader dies and one of the other two is elected. The other one truncates to the
  high watermark that it knows and cannot fetch again, because its fetches are held. Then the elected leader
  dies too, and the replica that is left is in the ISR (KIP-101). No other link between them is held: either
  may be the controller.
* `stale_replica_returns`, for unclean elections. A broker is down while the others go on. Then the others die
  together, and it returns: it leads, with the log that it had.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

TWO_LEADERS_DIE: Final = "two_leaders_die"
STALE_REPLICA_RETURNS: Final = "stale_replica_returns"
BROKERS_MIN: Final = 3
_LATE_MS: Final = 300


class SequenceStep(NamedTuple):
    kind: str
    targets: tuple[str, ...]
    after_ms: int
    duration_ms: int


def steps(name: str, dice: random.Random, brokers: Sequence[int], session_ms: int) -> list[SequenceStep]:
    """What happens, and how long after the beginning. `brokers`: at least `BROKERS_MIN`."""
    chosen = [str(broker) for broker in dice.sample(sorted(brokers), len(brokers))]
    return (
        _two_leaders_die(chosen, session_ms)
        if name == TWO_LEADERS_DIE
        else _stale_replica_returns(chosen, session_ms)
    )


def _two_leaders_die(brokers: list[str], session_ms: int) -> list[SequenceStep]:
    leader, elected, *rest = brokers
    late = tuple(f"{leader}>{other}" for other in (elected, *rest))
    unheard = tuple(f"{other}>{elected}" for other in rest)
    dies = session_ms  # time for everyone to be led by his preferred leader, and to be late
    return [
        SequenceStep("elect", (), 0, 0),
        SequenceStep("delay", (*late, f"{_LATE_MS}ms"), dies // 3, dies),
        SequenceStep("hold", unheard, dies, 2 * session_ms + session_ms // 2),
        SequenceStep("kill", (leader,), dies + 50, 4 * session_ms),
        # The elected one leads by now, and has not yet found out that no replica follows.
        SequenceStep("kill", (elected,), dies + 2 * session_ms, 2 * session_ms + 100),
    ]


def _stale_replica_returns(brokers: list[str], session_ms: int) -> list[SequenceStep]:
    stranger, *others = brokers
    die = 2 * session_ms  # the ISR has been without the stranger for a while
    return [
        SequenceStep("kill", (stranger,), 0, die + 400),
        *(
            SequenceStep("kill", (other,), die + 50 * number, 2 * session_ms)
            for number, other in enumerate(others)
        ),
    ]
