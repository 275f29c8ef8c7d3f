"""The counts of an atlas by configuration and by mix of faults: the rows and columns of its maps.

A *configuration* is a cell without its faults. Settings of which the grid has one value only are said once,
at the top, and not in every row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from tidelog.core.generations import GENERATIONS
from tidelog.pipeline.sweep.campaign import Atlas
from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.grid import AXES
from tidelog.pipeline.sweep.schedules import Shown
from tidelog.pipeline.sweep.summary import CellCount

_GENERATIONS = {
    "hw": "hw (Kafka up to 0.10)",
    "kip101": "kip101 (0.11 to 1.1)",
    "epoch": "epoch (2.7)",
    "elr": "elr (4.1)",
    "majority": "majority (like Raft)",
}


class AtlasTable:
    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self._counts = {count.cell: count for count in atlas.counts}
        self._shown = {one.cell: one for one in atlas.shown}

    @property
    def mixes(self) -> list[str]:
        return [str(mix) for mix in self.atlas.grid.axes["faults"]]

    @cached_property
    def configurations(self) -> list[Cell]:
        """Each as a cell of the first mix; those first that stand first in the grid."""
        first = self.mixes[0]
        found = dict.fromkeys(replace(count.cell, faults=first) for count in self.atlas.counts)
        places = {axis: list(values) for axis, values in self.atlas.grid.axes.items()}

        def place(cell: Cell) -> tuple[int, ...]:
            own = [(places[axis], getattr(cell, axis)) for axis in AXES]
            return tuple(values.index(value) if value in values else -1 for values, value in own)

        return sorted(found, key=place)

    def count(self, configuration: Cell, mix: str) -> CellCount | None:
        """What was played for this combination; None if it was not, or cannot be."""
        cell = replace(configuration, faults=mix)
        return None if cell.impossible() else self._counts.get(cell.plain())

    def shown(self, count: CellCount) -> Shown | None:
        return self._shown.get(count.cell.name)

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """Settings, apart from rules and faults, that differ between cells."""
        played = self.configurations
        return tuple(
            axis
            for axis in AXES
            if axis not in ("generation", "faults") and len({getattr(cell, axis) for cell in played}) > 1
        )

    def settings(self, cell: Cell) -> list[str]:
        """A configuration in the settings that make a difference here; of those that have no meaning under
        its rules or with its acks, nothing is said."""
        silent = {"min_insync"} if cell.acks != "all" else set()
        if not GENERATIONS[cell.generation].commits_by_isr:
            silent |= {"min_insync", "unclean", "isr_rule"}
        said = [setting_words(cell, axis) for axis in self.varying if axis not in silent]
        return said or ["these settings"]

    def common(self) -> list[str]:
        """What holds for all cells."""
        cell = self.configurations[0]
        left = [axis for axis in AXES if axis not in ("generation", "faults", *self.varying)]
        return [setting_words(cell, axis) for axis in left]


def generation_words(generation: str) -> str:
    return _GENERATIONS.get(generation, generation)


def setting_words(cell: Cell, axis: str) -> str:
    value = getattr(cell, axis)
    return {
        "acks": f"acks={value}",
        "replicas": f"{value} {'copy' if value == 1 else 'copies'}",
        "min_insync": f"min.insync {value}",
        "unclean": "unclean" if value else "clean",
        "flush": "flushed" if value == "always" else "not flushed",
        "idempotent": "idempotent" if value else "plain",
        "retries": f"{value} retries",
        "isr_rule": f"ISR by {value}",
        "zones": f"{value} {'zone' if value == 1 else 'zones'}",
        "without": f"without {value}" if value else "all guards",
        "faults": str(value),
        "generation": str(value),
    }[axis]
