"""Every value of every step that was recorded on real clusters of Apache Kafka 0.10.1.0 and 2.7.1, in the
simulator."""

import pytest
from tests.lab.recorded import COMPARED, RECORDINGS, SCHEDULES, TOLD, check, recording_of, scenario_of

from tidelog.lab.play import run


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_is_as_recorded(name: str) -> None:
    """Leader, epoch, ISR, controller, live brokers, logs, epochs, watermarks, beliefs, answers."""
    check(name, run(scenario_of(name)))


def test_every_recording_is_played() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.json")} == set(SCHEDULES)


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_field_of_a_recording_is_passed_over(name: str) -> None:
    steps = recording_of(name)["steps"]
    found = {
        "step": steps,
        "client": [client for step in steps for client in step.get("client", ())],
        "replica": [replica for step in steps for replica in step["replicas"].values()],
    }
    for kind, entries in found.items():
        known = {*COMPARED[kind].split(), *TOLD[kind].split()}
        assert {field for entry in entries for field in entry} <= known, kind
