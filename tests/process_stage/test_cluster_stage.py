"""What the lab claims, shown on real processes: the same scenario ends in the same place on both stages.

Four scenarios in every run; the whole catalogue under every generation, and what no scenario does, in long
ones (``make scenarios``).
"""

from collections.abc import Iterator

import pytest

from tidelog.cluster.errors import TrialError
from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.narrate.run import run_json
from tidelog.process_stage.boot import require_playable
from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.play import compare_stages, play_on_cluster
from tidelog.process_stage.processes import Processes
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import Scenario, parse

FEW = (("hw-loss", "hw"), ("hw-loss", "epoch"), ("isolate-leader-zone", "epoch"), ("acks-1-loss", "hw"))


def _catalogue() -> list[tuple[str, str]]:
    scenarios = {name: catalogue.load(name) for name in catalogue.names()}
    return [
        (name, generation)
        for name, scenario in scenarios.items()
        for generation in GENERATIONS
        if scenario.expectation(generation) is not None
        and not scenario.setup.without
        and (name, generation) not in FEW
    ]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("trials")) as started:
        yield started


def _assert_same_end(scenario: Scenario, processes: Processes) -> None:
    compared = compare_stages(scenario, processes, suitable_paces())
    assert compared.differences == []
    assert compared.second.surprises() == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "generation"), FEW)
def test_real_brokers_end_where_the_lab_ends(processes: Processes, name: str, generation: str) -> None:
    """Leader, epochs, ISR, every record of every replica, and the outcomes of every client."""
    _assert_same_end(catalogue.load(name).under(generation), processes)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("name", "generation"), _catalogue())
def test_the_whole_catalogue_on_real_brokers(processes: Processes, name: str, generation: str) -> None:
    """The same for every scenario that says what it expects of a generation."""
    _assert_same_end(catalogue.load(name).under(generation), processes)


RESTARTED_CONTROLLER = """
    scenario restarted-controller
    cluster brokers=3 controller=2
    topic t replicas=0,1,2
    producer p zone=az1
    produce p a
    crash 2
    restart 2
    advance 20s
    produce p b
    advance 5s
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_restarted_controller_follows_again_under_hw(processes: Processes) -> None:
    """It is registered when its old session has expired and another controller is at work: one that takes
    over later would send it its role before any metadata, and it would ignore that."""
    _assert_same_end(parse(RESTARTED_CONTROLLER, "restarted").under("hw"), processes)


REST = """
    scenario rest
    cluster  brokers=3 controller=1
    topic    t replicas=0,1
    producer p zone=az3 acks=all request.timeout.ms=3000 delivery.timeout.ms=8000
    consumer c zone=az3

    produce p a
    wait knows 1 a
    delay 0 1 200ms
    reset 0 1
    produce p b
    wait leo 1 2
    tick
    settle
    poll c
    stop 0
    wait leader 1
    wait hw 1 2
    produce p c
    restart 0
    wait isr 0,1
    keeper-stop 0
    keeper-stop 1
    advance 8s
    wait registered 0
    wait epoch 1
    keeper-start 0
    configure t min.insync.replicas=2
    pause 0
    send p d
    wait answered
    wait isr 1
    resume 0
    wait converged
    elect-preferred
    wait leads 0
    read c
    produce p->1 x
    delete /controller
    produce p->0 e
    wait converged
"""


@pytest.mark.long
@pytest.mark.slow
def test_the_commands_that_no_scenario_of_the_catalogue_uses(processes: Processes) -> None:
    """Controlled shutdown, a keeper without a majority (no session expires), delays, resets, ticks."""
    scenario = parse(REST, "rest")
    assert not any(played.timed_out for played in run(scenario).played)
    _assert_same_end(scenario, processes)


@pytest.mark.slow
def test_a_run_on_real_brokers_tells_as_much_as_one_in_the_lab(processes: Processes) -> None:
    """The same fields, every step with its events, and scenario time."""
    scenario = catalogue.load("watermark-rounds")
    simulated, played = run(scenario), play_on_cluster(scenario, processes, suitable_paces()[0])
    document = run_json(played)
    assert document["stage"] == "cluster"
    assert document.keys() == run_json(simulated).keys()
    assert [step["command"] for step in document["steps"]] == [
        step["command"] for step in run_json(simulated)["steps"]
    ]
    texts = [event["text"] for step in document["steps"] for event in step["events"]]
    assert "0 raises the high watermark from 2 to 3: a follower fetched" in texts
    assert "p is told: c ok at offset 2" in texts
    times = [step["state"]["at_ms"] for step in document["steps"]]
    assert times == sorted(times)


def test_what_only_the_simulator_can_do_is_refused() -> None:
    """A real broker has all its guards, and the number of brokers is limited."""
    with pytest.raises(TrialError, match=r"without=incarnation_in_isr.*--stage sim"):
        require_playable(catalogue.load("kafka-14140-rebooted-replica"))
    many = parse("scenario many\ncluster brokers=40\ntopic t replicas=0", "many")
    with pytest.raises(TrialError, match=r"40 brokers.*--stage sim"):
        require_playable(many)
