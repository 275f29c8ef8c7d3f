"""Playing a scenario from beginning to end, and everything that can be told about it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidelog.core.events import IsrChangeProposed
from tidelog.core.types import InvariantViolation
from tidelog.lab.actions import Actions
from tidelog.lab.booting import booted
from tidelog.lab.grammar import Step
from tidelog.lab.invariants import Broken, Watch
from tidelog.lab.scenario import FACTS, VERDICT_KINDS, Scenario
from tidelog.lab.setup import Setup
from tidelog.lab.snapshot import Snapshot, take
from tidelog.lab.verdict import Verdict, judge, ledger_of
from tidelog.lab.world import Observer, World
from tidelog.narrate.clients import error_words, remark_words
from tidelog.narrate.events import narrate
from tidelog.scenario.client_events import Acknowledged, Outcome, RecordRead, SendFailed, Sent
from tidelog.scenario.remarks import Remark, RemarkKind

MakeWorld = Callable[[Setup, Observer], World]


@dataclass(slots=True)
class Played:
    """One step, what happened during it, and the state after it."""

    step: Step | None
    """None for the beginning: the cluster as it was set up."""
    remarks: tuple[Remark, ...]
    events: list[tuple[int, object]]
    after: Snapshot

    @property
    def timed_out(self) -> bool:
        """Whether a ``wait`` ended without what it had waited for."""
        return any(remark.kind is RemarkKind.TIMED_OUT for remark in self.remarks)

    def told(self) -> list[str]:
        """What clients heard during this step."""
        kinds = (Acknowledged, SendFailed, RecordRead)
        return [narrate(event) for _, event in self.events if isinstance(event, kinds)]


@dataclass(slots=True)
class Run:
    scenario: Scenario
    played: list[Played]
    verdict: Verdict
    ledger: list[Sent]
    broken: list[Broken] = field(default_factory=list)
    """Invariants that did not hold, the first time each was seen, in order."""
    broken_at: list[int] = field(default_factory=list)
    """For each of those, the number of the step at which it was seen."""
    stage: str = "sim"

    @property
    def final(self) -> Snapshot:
        return self.played[-1].after

    def surprises(self) -> list[str]:
        """Where the end differs from what the scenario expects of this generation."""
        expectation = self.scenario.expectation(self.scenario.setup.generation)
        if expectation is None:
            return []
        found = []
        actual = self.facts()
        for kind in FACTS:
            wanted = expectation.facts.get(kind, "" if kind in VERDICT_KINDS else None)
            if wanted is not None and actual[kind] != wanted:
                found.append(f"{kind}: expected {wanted or 'none'}, found {actual[kind] or 'none'}")
        return found

    def facts(self) -> dict[str, str]:
        """The end in the words of ``expect`` lines."""
        partition = self.final.partitions[0]
        verdict = self.verdict.as_json()
        facts = {kind: ",".join(str(f["value"]) for f in verdict[kind]) for kind in VERDICT_KINDS}
        facts["diverged"] = ",".join(str(f["offset"]) for f in verdict["diverged"])
        facts["leader"] = str(partition.leader) if partition.leader >= 0 else "none"
        facts["epoch"] = str(partition.leader_epoch)
        facts["isr"] = ",".join(map(str, partition.isr))
        facts["shrinks"] = str(self._shrinks())
        return facts

    def _shrinks(self) -> int:
        """How often a leader took followers out of the ISR."""
        proposals = [event for played in self.played for _, event in played.events]
        return sum(isinstance(e, IsrChangeProposed) and len(e.isr) < len(e.before) for e in proposals)

    def as_json(self) -> dict[str, Any]:
        final = self.final.as_json()
        return {
            "scenario": self.scenario.name,
            "generation": self.scenario.setup.generation,
            "stage": self.stage,
            "verdict": self.verdict.as_json(),
            "acknowledged": [_entry(r) for r in self.ledger if r.outcome is Outcome.OK],
            "failed": [_entry(r) for r in self.ledger if r.outcome is not Outcome.OK],
            "partitions": final["partitions"],
            "controller": final["controller"],
            "controller_epoch": final["controller_epoch"],
            "live_brokers": final["live_brokers"],
            "invariants_broken": [
                {"invariant": b.name, "message": b.message, "step": at}
                for b, at in zip(self.broken, self.broken_at, strict=True)
            ],
            "as_expected": not self.surprises(),
            "surprises": self.surprises(),
            "steps": [_step_json(number, played) for number, played in enumerate(self.played)],
        }


def _entry(record: Sent) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "value": record.value,
        "producer": record.producer,
        "acks": "all" if record.acks == -1 else record.acks,
        "attempts": record.attempts,
    }
    if record.outcome is Outcome.OK:
        return {**entry, "offset": record.offset, "broker": record.broker}
    outcome = "pending" if record.outcome is None else record.outcome.value
    return {**entry, "error": error_words(record.error), "outcome": outcome}


def _step_json(number: int, played: Played) -> dict[str, Any]:
    return {
        "step": number,
        "command": str(played.step) if played.step is not None else "(start)",
        "narration": played.step.comment if played.step is not None else "",
        "remark": remark_words(played.remarks),
        "told": played.told(),
        "events": [{"at_ms": at, "text": narrate(event)} for at, event in played.events],
        "state": played.after.as_json(),
    }


def run(
    scenario: Scenario,
    *,
    make_world: MakeWorld = World,
    after_step: Callable[[World], None] = lambda world: None,
) -> Run:
    """Play all steps. A broken invariant is noted and the play goes on: watching it fail is the point.

    Whoever wants to see more than a run tells may bring a world that takes notes, and look at it after each
    step, the beginning included."""
    watch = Watch()
    broken: list[Broken] = []
    broken_at: list[int] = []
    events: list[tuple[int, object]] = []
    world: World | None = None
    played: list[Played] = []

    def note(failure: Broken) -> None:
        if failure.name not in {known.name for known in broken}:
            broken.append(failure)
            broken_at.append(len(played))

    def observe(event: object) -> None:
        if world is None:
            return  # the cluster is being set up
        events.append((world.now, event))
        try:
            watch(event)
        except Broken as failure:
            note(failure)
        if watch.kept is not None:
            note(watch.kept)

    def finish_step(step: Step | None, remarks: tuple[Remark, ...]) -> None:
        nonlocal events
        assert world is not None
        played.append(Played(step, remarks, events, take(world)))
        events = []
        after_step(world)

    world = make_world(scenario.setup, observe)
    watch.attach(world)
    actions = Actions(scenario, world)
    finish_step(None, ())
    for step in scenario.steps:
        try:
            finish_step(step, actions.perform(step))
        except InvariantViolation as violation:
            note(Broken("core", str(violation)))
            finish_step(step, (Remark(RemarkKind.CORE_STOPPED, {"violation": str(violation)}),))
            break
    for failure in watch.failures_at_end():
        note(failure)
    return Run(scenario, played, judge(world), ledger_of(world.clients.values()), broken, broken_at)


def first_failure(scenario: Scenario, *, judge_end: bool = True) -> Broken | None:
    """Play a scenario only to see which invariant breaks first, without taking notes. Claims about the end
    are for scenarios that let the cluster recover."""
    watch = Watch()
    try:
        world = booted(scenario.setup, watch)
        watch.attach(world)
        actions = Actions(scenario, world)
        for step in scenario.steps:
            actions.perform(step)
        if judge_end:
            watch.at_end()
    except Broken as failure:
        return failure
    except InvariantViolation as violation:
        return Broken("core", str(violation))
    return None
