"""Every value of every step that was recorded on real clusters of Apache Kafka 0.10.1.0 and 2.7.1, in the
simulator."""

import pytest
from tests.lab.recorded import SCHEDULES, check, scenario_of

from tidelog.lab.play import run


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_is_as_recorded(name: str) -> None:
    """Leader, epoch, ISR, controller, live brokers, logs, epochs, watermarks, beliefs, answers."""
    check(name, run(scenario_of(name)))
