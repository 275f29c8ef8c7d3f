"""What a person asks a sweep for, as text: a grid by values of its settings, one trial by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.errors import Refusal
from tidelog.lab.search.count import play, schedule
from tidelog.pipeline.sweep.cells import OPERATIONS, cell_named, faults_of
from tidelog.pipeline.sweep.grid import DEFAULT_AXES, DEFAULT_SEEDS, Grid, Values, make_grid, read_grid
from tidelog.scenario.scenario import print_scenario

_TRUTH = {"no": False, "yes": True, "false": False, "true": True}


def grid_from(path: Path | None, given: Mapping[str, str]) -> tuple[Grid, int]:
    """The usual grid or that of a file, with the given values of some settings; and its trials per cell."""
    axes: dict[str, Values] = dict(DEFAULT_AXES)
    seeds = DEFAULT_SEEDS
    if path is not None:
        read = read_grid(path)
        axes, seeds = dict(read.axes), read.seeds or DEFAULT_SEEDS
    axes |= {axis: [_value(axis, word.strip()) for word in words.split(",")] for axis, words in given.items()}
    return make_grid(axes), seeds


def _value(axis: str, word: str) -> str | int | bool:
    flag = "idempotence" if axis == "idempotent" else axis.replace("_", "-")
    if axis in ("unclean", "idempotent"):
        if word not in _TRUTH:
            raise Refusal(f"--{flag} {word}: write no, yes or no,yes")
        return _TRUTH[word]
    if axis in ("replicas", "min_insync", "retries", "zones"):
        if not (word.isascii() and word.isdigit()):
            raise Refusal(f"--{flag} {word}: write whole numbers, separated by commas")
        return int(word)
    return "" if axis == "without" and word == "none" else word


@dataclass(slots=True, frozen=True)
class Replayed:
    """One trial of a sweep, played again."""

    title: str
    text: str
    """As a scenario file."""
    held: bool


def replayed(name: str) -> Replayed:
    """The trial CELL:SEED. Raises `Refusal`."""
    words, colon, seed = name.rpartition(":")
    if not colon or not (seed.isascii() and seed.isdigit()):
        raise Refusal(f"{name} is not a trial: write CELL:SEED, as in the atlas")
    try:
        cell = cell_named(words)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if (reason := cell.impossible()) is not None:
        raise Refusal(f"{words}: {reason}")
    faults = faults_of(cell.faults)
    tally = play(cell.scenario(), int(seed), operations=OPERATIONS, faults=faults)
    wrong = ", ".join(f"{count} {kind}" for kind, count in tally.verdict.items() if count)
    title = f"{tally.outcome}: {wrong or tally.reason or 'nothing was lost, duplicated or changed'}"
    drawn = schedule(cell.scenario(), int(seed), operations=OPERATIONS, faults=faults)
    text = print_scenario(replace(drawn, name=f"{words}.{seed}", title=title))
    return Replayed(title, text, tally.outcome == "held")
