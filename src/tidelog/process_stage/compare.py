"""One scenario on two stages: do both end in the same state?

What is compared, and how strictly:

==================  ==========================================================================================
partition           leader, leader epoch and ISR in the keeper at the end; the order of the ISR only where the
                    scenario expects one, because two followers race to catch up
replicas            offset, epoch and value of every record, the epochs' starts, the high watermark; not the
                    high watermark of a process that is down: it is its last checkpoint, whose moment varies
ledger              the outcome of each record for its producer: ok and at which offset, or which error, and
                    whether a copy may exist; how often it was sent
reads               what each ``read`` returned
remarks             steps that found nothing to do, waits that timed out; not those of ``drop``: messages that
                    are held when their sender dies are lost with the connection
controller          where the scenario decides it: it names the controller in a step, or the first one stays
expectation         what the file expects of this generation, on both stages
==================  ==========================================================================================

Time is not compared: how long something took, how often a client looked for a leader, which of two racing
brokers became controller. A producer whose delivery timeout expires reports the error of its last attempt,
which depends on its place in the retries: errors that leave a copy equally possible count as one
(``_GIVING_UP``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidelog.narrate.clients import answer_phrase, error_words, remark_words
from tidelog.narrate.phrasebook import say
from tidelog.narrate.run import run_json
from tidelog.scenario.clients.events import ClientFailure, Outcome, Sent
from tidelog.scenario.conditions import Condition
from tidelog.scenario.remarks import Remark
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.snapshot import PartitionSnapshot, ReplicaState

_GIVING_UP = (ClientFailure.NO_ANSWER, ClientFailure.CONNECTION_LOST, ClientFailure.DELIVERY_TIMED_OUT)
"""Failures of a client that gets no response. Which one depends on what it was waiting for."""


@dataclass(slots=True, frozen=True)
class Difference:
    kind: str
    where: str
    first: str
    second: str


@dataclass(slots=True)
class StageComparison:
    first: Run
    second: Run
    differences: list[Difference] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        first, second = self.first.stage, self.second.stage
        return {
            "scenario": self.first.scenario.name,
            "generation": self.first.scenario.setup.generation,
            "stages": [first, second],
            "same": self.same,
            "differences": [
                {"kind": d.kind, "where": d.where, first: d.first, second: d.second} for d in self.differences
            ],
            "runs": [run_json(self.first), run_json(self.second)],
        }


def compare(first: Run, second: Run) -> StageComparison:
    comparison = StageComparison(first, second)
    found = comparison.differences
    for one, other in zip(first.final.partitions, second.final.partitions, strict=True):
        found += partition_differences(one, other, ordered_isr=_expects_isr(first))
    found += ledger_differences(first.ledger, second.ledger)
    found += _remarks(first, second)
    if _decides_controller(first.scenario, first):
        found += _differ("controller", "end", first.final.controller, second.final.controller)
    found += _differ("expectation", "end", _met(first), _met(second))
    return comparison


def _differ(kind: str, where: str, first: object, second: object) -> list[Difference]:
    return [] if first == second else [Difference(kind, where, str(first), str(second))]


def _met(run: Run) -> str:
    return "; ".join(run.surprises()) or "as expected"


# ---------------------------------------------------------------- logs


def _expects_isr(run: Run) -> bool:
    expectation = run.scenario.expectation(run.scenario.setup.generation)
    return expectation is not None and "isr" in expectation.facts


def partition_differences(
    one: PartitionSnapshot, other: PartitionSnapshot, *, ordered_isr: bool
) -> list[Difference]:
    """Two views of a partition: what the keeper holds, and every replica."""
    name = f"{one.topic}-{one.partition}"
    found = _differ("leader", name, one.leader, other.leader)
    found += _differ("epoch", name, one.leader_epoch, other.leader_epoch)
    in_order = list if ordered_isr else sorted
    found += _differ("isr", name, in_order(one.isr), in_order(other.isr))
    found += _differ("ELR", name, list(one.elr), list(other.elr))
    found += _differ("last known leader", name, list(one.last_known_elr), list(other.last_known_elr))
    for a, b in zip(one.replicas, other.replicas, strict=True):
        found += _replicas(f"{name} on {a.broker}", a, b)
    return found


def _replicas(where: str, one: ReplicaState, other: ReplicaState) -> list[Difference]:
    found = _differ("process", where, one.process, other.process)
    found += _differ("records", where, _shown(one), _shown(other))
    found += _differ("epochs", where, list(one.epochs), list(other.epochs))
    if one.process != "down":
        found += _differ("high watermark", where, one.hw, other.hw)
    return found


def _shown(replica: ReplicaState) -> str:
    return " ".join(f"{o}:{'·' if v is None else v}@{'-' if e is None else e}" for o, e, v in replica.records)


# ---------------------------------------------------------------- clients


def ledger_differences(first: list[Sent], second: list[Sent]) -> list[Difference]:
    """What producers were answered."""
    found = []
    for one, other in zip(first, second, strict=True):
        where = f"{one.value} of {one.producer}"
        found += _differ("answer", where, _answer(one), _answer(other))
        found += _differ("attempts", where, one.attempts, other.attempts)
    return found


def _answer(record: Sent) -> str:
    if record.outcome is None:
        return "nothing yet"
    if record.outcome is Outcome.OK:
        return say(answer_phrase(record))
    error = "gave up" if record.error in _GIVING_UP else error_words(record.error)
    return f"{record.outcome.value}: {error}"


def _remarks(first: Run, second: Run) -> list[Difference]:
    found = []
    for number, (one, other) in enumerate(zip(first.played, second.played, strict=False)):
        if one.step is not None and one.step.verb == "drop":
            continue
        kind = "read" if one.step is not None and one.step.verb == "read" else "remark"
        found += _differ(kind, f"step {number}, {one.step}", _remark(one), _remark(other))
    return found


def _remark(played: Played) -> str:
    """The remarks of a step. Failures in ``_GIVING_UP`` are equal."""
    return remark_words(_given_up(remark) for remark in played.remarks)


def _given_up(remark: Remark) -> Remark:
    if remark.fields.get("error") not in _GIVING_UP:
        return remark
    return Remark(remark.kind, {**remark.fields, "error": "gave up"})


def _decides_controller(scenario: Scenario, run: Run) -> bool:
    if all(played.after.controller == scenario.setup.controller for played in run.played):
        return True
    named = [arg for step in scenario.steps for arg in step.args if isinstance(arg, Condition)]
    return any(condition.name == "controller" for condition in named)
