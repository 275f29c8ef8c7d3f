"""What real brokers show of themselves after each step is what the simulator shows."""

from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.lab.play import run
from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.play import play_on_cluster
from tidelog.process_stage.processes import Processes
from tidelog.scenario import catalogue
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import parse
from tidelog.scenario.snapshot import Snapshot


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("views")) as started:
        yield started


def inside(snapshot: Snapshot) -> dict[str, Any]:
    """What only brokers, keeper members and clients know, without times. A fetch that waits is not compared:
    a follower fetches again at once when its time is over."""
    partition = snapshot.partitions[0]
    return {
        "remote": {
            (replica.broker, follower.broker): follower.leo
            for replica in partition.replicas
            for follower in replica.remote
        },
        "waiting produces": [
            (replica.broker, request.sender, request.offset)
            for replica in partition.replicas
            for request in replica.parked
            if request.kind == "produce"
        ],
        "machines": (partition.phase, partition.replica_phases),
        "controllers": {broker.broker: broker.controls for broker in snapshot.brokers},
        "sessions": {broker.broker: broker.keeper_member for broker in snapshot.brokers},
        "keeper": snapshot.keeper,
        "clients": snapshot.clients,
        "observed": all(broker.observed for broker in snapshot.brokers),
    }


def differences(simulated: Run, real: Run) -> list[tuple[int, str, Any, Any]]:
    found = []
    for number, (one, other) in enumerate(zip(simulated.played, real.played, strict=True)):
        # After a hold the stage does not look again; real brokers need time to notice a healed network.
        if one.step is None or one.step.verb not in ("hold", "heal"):
            here, there = inside(one.after), inside(other.after)
            found += [(number, key, here[key], there[key]) for key in here if here[key] != there[key]]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["watermark-rounds", pytest.param("isolate-controller-zone", marks=pytest.mark.long)]
)
def test_real_brokers_show_what_the_lab_shows(processes: Processes, name: str) -> None:
    """Remote log ends, waiting sends, machines, controllers, sessions, members and clients, at each step."""
    scenario = catalogue.load(name).under("epoch")
    simulated = run(scenario)
    for pace in suitable_paces():
        found = differences(simulated, play_on_cluster(scenario, processes, pace))
        if not found:
            break
    assert found == []


UNREACHABLE = """
    scenario unreachable
    cluster brokers=3 controller=2
    topic t replicas=0,1
    crash 0
    wait unregistered 0
    isolate az1
    restart 0
"""


@pytest.mark.slow
def test_a_broker_that_has_not_answered_is_named(processes: Processes) -> None:
    """A broker that cannot register does not serve, so nothing is known of it but its files."""
    played = play_on_cluster(parse(UNREACHABLE).under("epoch"), processes, suitable_paces()[0])
    brokers = {broker.broker: (broker.process, broker.observed) for broker in played.final.brokers}
    assert brokers == {0: ("up", False), 1: ("up", True), 2: ("up", True)}
