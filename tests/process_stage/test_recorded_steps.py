"""Every value of every step that was recorded on real clusters of Apache Kafka 0.10.1.0 and 2.7.1, on real
brokers of ours."""

from collections.abc import Iterator

import pytest
from tests.lab.recorded import SCHEDULES, check, scenario_of

from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.play import play_on_cluster
from tidelog.process_stage.processes import Processes


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("recorded")) as started:
        yield started


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_is_as_recorded(processes: Processes, name: str) -> None:
    """The same values as in the simulator, at the pace that this machine keeps."""
    *faster, slowest = suitable_paces()
    for pace in faster:
        try:
            check(name, play_on_cluster(scenario_of(name), processes, pace))
        except AssertionError:
            continue  # a busy machine falls behind a fast clock
        return
    check(name, play_on_cluster(scenario_of(name), processes, slowest))
