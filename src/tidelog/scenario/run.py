"""A scenario that was played, on whichever stage: its steps, the state after each, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.core.events import IsrChangeProposed
from tidelog.faults.step import Step
from tidelog.scenario.claims import is_true
from tidelog.scenario.clients.events import Sent
from tidelog.scenario.conditions import Condition
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.scenario.scenario import FACTS, VERDICT_KINDS, Scenario
from tidelog.scenario.snapshot import Snapshot
from tidelog.scenario.verdict import RunVerdict
from tidelog.scenario.violations import Broken


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


@dataclass(slots=True)
class Run:
    scenario: Scenario
    played: list[Played]
    verdict: RunVerdict
    ledger: list[Sent]
    broken: list[Broken] = field(default_factory=list)
    """Invariants that did not hold, the first time each was seen, in order."""
    broken_at: list[int] = field(default_factory=list)
    """For each of those, the number of the step at which it was seen."""
    stage: str = "sim"

    @property
    def final(self) -> Snapshot:
        return self.played[-1].after

    def narration(self, number: int) -> list[str]:
        """The passages above a step that are true of this run: of its generation, with all their claims."""
        step = self.played[number].step
        if step is None or not step.narration:
            return []
        chapter = self.chapter(number)
        generation = self.scenario.setup.generation
        return [
            passage.text
            for passage in step.narration
            if passage.belongs_to(generation) and all(is_true(claim, chapter) for claim in passage.claims)
        ]

    def chapter(self, number: int) -> list[Played]:
        """A step and those after it up to the next comment."""
        end = number + 1
        while end < len(self.played) and not _is_narrated(self.played[end].step):
            end += 1
        return self.played[number:end]

    def misjudged_waits(self) -> list[str]:
        """Waits that timed out although the scenario does not expect it, and the other way round."""
        found = []
        generation = self.scenario.setup.generation
        for number, played in enumerate(self.played):
            condition = (
                played.step.args[0] if played.step is not None and played.step.verb == "wait" else None
            )
            if isinstance(condition, Condition) and played.timed_out != condition.is_to_time_out(generation):
                how = "timed out" if played.timed_out else "expected to time out, but came true"
                found.append(f"step {number}, wait {condition.wanted}: {how}")
        return found

    def surprises(self) -> list[str]:
        """Where the run differs from what the scenario expects of this generation."""
        found = self.misjudged_waits()
        expectation = self.scenario.expectation(self.scenario.setup.generation)
        if expectation is None:
            return found
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


def _is_narrated(step: Step | None) -> bool:
    return step is not None and bool(step.narration)
