"""One schedule under several generations: the runs, and the first step after which they are not the same.

Two states are the same if they have the same leader, the same ISR, and on each replica the same values with
the same ones committed. Epochs do not count, because under ``hw`` records carry none; nor do control records,
which only ``majority`` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.lab.play import run
from tidelog.narrate.run import run_json
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.snapshot import PartitionSnapshot, ReplicaState, Snapshot


def essence_of_replica(replica: ReplicaState) -> tuple[object, ...]:
    """What a replica holds, whatever the generation."""
    values = tuple(value for _, _, value in replica.records if value is not None)
    committed = sum(1 for offset, _, value in replica.records if value is not None and offset < replica.hw)
    return values, committed


def _essence_of_partition(partition: PartitionSnapshot) -> tuple[object, ...]:
    return partition.leader, sorted(partition.isr), [essence_of_replica(r) for r in partition.replicas]


def essence(snapshot: Snapshot) -> list[object]:
    return [_essence_of_partition(partition) for partition in snapshot.partitions]


@dataclass(slots=True)
class Comparison:
    generations: list[str]
    runs: list[Run]

    @classmethod
    def of(cls, scenario: Scenario, generations: list[str]) -> Comparison:
        return cls(generations, [run(scenario.under(generation)) for generation in generations])

    @property
    def steps(self) -> int:
        """How many steps there are to show. A run in which the core stopped has fewer than the others."""
        return max(len(r.played) for r in self.runs)

    def snapshot(self, which: int, step: int) -> Snapshot:
        """The state of a run after a step; of a run that ended before, its last one."""
        played = self.runs[which].played
        return played[min(step, len(played) - 1)].after

    def same_after(self, step: int) -> bool:
        first = essence(self.snapshot(0, step))
        return all(essence(self.snapshot(which, step)) == first for which in range(1, len(self.runs)))

    @property
    def parts_at(self) -> int | None:
        """The first step after which the runs differ."""
        return next((step for step in range(self.steps) if not self.same_after(step)), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.runs[0].scenario.name,
            "generations": self.generations,
            "parts_at_step": self.parts_at,
            "same_at_end": self.same_after(self.steps - 1),
            "runs": [run_json(r) for r in self.runs],
        }
