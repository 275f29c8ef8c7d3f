"""With any behaviour of clients, clocks, logs and coordinators: acknowledged offsets stay, all requests are
answered."""

from __future__ import annotations

import pytest
from tests.effort import tries
from tests.groups.history import History

HISTORIES = tries(40)
STEPS = 120


@pytest.mark.parametrize("batch", range(2))
def test_random_histories(batch: int) -> None:
    """Many short histories, each from its own seed; a failure shows the steps that led to it."""
    for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
        history = History(seed)
        try:
            history.run(STEPS)
        except Exception as error:
            error.add_note(f"seed {seed}: " + "; ".join(history.steps))
            raise
