"""Small scenarios written down in a test, played, and questions to ask of the run."""

from textwrap import dedent

from tidelog.core.broker import Broker
from tidelog.core.events import PartitionStateWritten
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.faults.step import Step
from tidelog.lab.play import run
from tidelog.lab.world.snapshot import take
from tidelog.lab.world.stage import script_runner
from tidelog.lab.world.world import World
from tidelog.narrate.events import narrate
from tidelog.scenario import catalogue
from tidelog.scenario.conditions import TIMES_OUT
from tidelog.scenario.grammar import parse_step
from tidelog.scenario.line import Line
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario, parse
from tidelog.scenario.snapshot import PartitionSnapshot, ReplicaState, Snapshot

THREE = """
    scenario story
    cluster brokers=3 controller=2
    topic t replicas=0,1,2
    producer p zone=az3
"""
"""Broker 0 leads, broker 2 is the controller, all three hold the topic."""

TWO = """
    scenario story
    cluster brokers=3 controller=2
    topic t replicas=0,1
    producer p zone=az3
"""
"""Broker 0 leads, broker 1 follows, broker 2 is nothing but the controller."""


def play(head: str, steps: str, generation: str = "epoch") -> Run:
    return run(parse(dedent(head) + dedent(steps)).under(generation))


def known(name: str, generation: str) -> Run:
    """A scenario of the catalogue under one generation."""
    return run(catalogue.load(name).under(generation))


def after(story: Run, command: str, nth: int = 1) -> Played:
    """The step with this text, and what was so after it."""
    found = [played for played in story.played if command_of(played.step) == command]
    assert len(found) >= nth, f"no step {command!r}"
    return found[nth - 1]


def command_of(step: Step | None) -> str:
    """As in the file, without the generations under which a wait times out."""
    return str(step).partition(f" {TIMES_OUT} ")[0]


class Stage:
    """A story that is played step by step, so that a test can look behind the scenes in between."""

    def __init__(self, scenario: Scenario) -> None:
        self.events: list[object] = []
        self.world = World(scenario.setup, self.events.append)
        self._actions = script_runner(scenario, self.world)
        self._left = list(scenario.steps)

    def play_until(self, command: str) -> None:
        """Play the scenario's own steps up to and including this one."""
        while True:
            step = self._left.pop(0)
            self._actions.perform(step)
            if command_of(step) == command:
                return

    def do(self, *commands: str) -> None:
        for command in commands:
            self._actions.perform(parse_step(Line("test", 1, command)))

    def core(self, broker: int) -> Broker:
        core = self.world.processes[broker].core
        assert core is not None, f"broker {broker} is down"
        return core

    @property
    def after(self) -> Snapshot:
        return take(self.world)


def stage(head: str, generation: str = "epoch") -> Stage:
    return Stage(parse(dedent(head)).under(generation))


Told = Run | Played | Stage


def partition(of: Told) -> PartitionSnapshot:
    snapshot = of.final if isinstance(of, Run) else of.after
    return snapshot.partitions[0]


def replica(of: Told, broker: int) -> ReplicaState:
    return next(one for one in partition(of).replicas if one.broker == broker)


def state(of: Told) -> tuple[int, int, list[int]]:
    """(leader, leader epoch, ISR) as the keeper has it; leader −1 is none."""
    found = partition(of)
    return found.leader, found.leader_epoch, list(found.isr)


def log(of: Told, broker: int) -> list[tuple[int, int | None, str | None]]:
    """A replica's records as (offset, epoch, value)."""
    return list(replica(of, broker).records)


def values(of: Told, broker: int) -> str:
    return " ".join(value or "·" for _, _, value in log(of, broker))


def marks(of: Told, broker: int) -> tuple[int, int]:
    """(log end offset, high watermark) of a replica."""
    found = replica(of, broker)
    return found.leo, found.hw


def happenings(of: Run | Played) -> list[str]:
    """Every event of a step or of a whole run, in words."""
    played = of.played if isinstance(of, Run) else [of]
    return [narrate(event) for one in played for _, event in one.events]


Written = tuple[int, int, list[int], StateWriteReason | ElectionKind, int | None]


def written(of: Run | Played) -> list[Written]:
    """Every state the keeper took: (leader, epoch, ISR, why, the broker that is absent)."""
    played = of.played if isinstance(of, Run) else [of]
    return [
        (event.state.leader, event.state.leader_epoch, list(event.state.isr), event.reason, event.absent)
        for one in played
        for _, event in one.events
        if isinstance(event, PartitionStateWritten)
    ]
