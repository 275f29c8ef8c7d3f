"""Which cells a sweep plays: every combination of the values wanted for each setting, without those that
cannot be and with those that cannot differ played once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from tidelog.errors import Refusal, reason, unknown
from tidelog.pipeline.sweep.cells import Cell, canonical, check_values

AXES = tuple(axis.name for axis in fields(Cell))
COMBINATIONS_MAX = 100_000
"""More cells than a reader looks at: mostly a typing error."""

Values = Sequence[str | int | bool]

DEFAULT_AXES: dict[str, Values] = {
    "generation": ("hw", "kip101", "epoch", "elr", "majority"),
    "acks": ("1", "all"),
    "replicas": (3,),
    "min_insync": (1, 2),
    "unclean": (False, True),
    "flush": ("roll", "always"),
    "idempotent": (False,),
    "retries": (2,),
    "isr_rule": ("caught-up-time",),
    "faults": ("crash", "power", "pause", "cut", "all"),
    "zones": (3,),
    "without": ("",),
}
DEFAULT_SEEDS = 400


class GridError(Refusal, ValueError):
    """There is no such grid. The message is one line that says what to change."""


@dataclass(slots=True, frozen=True)
class Dropped:
    """A combination that is not played, and why."""

    cell: Cell
    reason: str


@dataclass(slots=True, frozen=True)
class Grid:
    axes: Mapping[str, tuple[Any, ...]]
    cells: tuple[Cell, ...]
    """What is played, each once."""
    same_as: Mapping[Cell, Cell]
    """Combinations in which a setting cannot matter, and the cell that speaks for them."""
    dropped: tuple[Dropped, ...] = field(default=())


def make_grid(axes: Mapping[str, Values]) -> Grid:
    """All combinations; settings that are not named have the values of a usual cell."""
    usual = Cell()
    values = {axis: _distinct(axis, axes.get(axis, (getattr(usual, axis),))) for axis in AXES}
    count = 1
    for given in values.values():
        count *= len(given)
    if count > COMBINATIONS_MAX:
        raise GridError(
            f"the grid has {count:,} combinations, at most {COMBINATIONS_MAX:,}: name fewer values"
        )
    played: dict[Cell, None] = {}
    same_as: dict[Cell, Cell] = {}
    dropped: list[Dropped] = []
    for combination in product(*values.values()):
        cell = Cell(**dict(zip(AXES, combination, strict=True)))
        try:
            check_values(cell)
        except ValueError as error:
            raise GridError(str(error)) from None
        if (reason := cell.impossible()) is not None:
            dropped.append(Dropped(cell, reason))
            continue
        plain = cell.plain()
        played[plain] = None
        if plain != cell:
            same_as[cell] = plain
    if not played:
        why = dropped[0].reason if dropped else "it is empty"
        raise GridError(f"no combination of this grid can be: {why}")
    return Grid(values, tuple(played), same_as, tuple(dropped))


def _distinct(axis: str, given: Values) -> tuple[Any, ...]:
    if not given:
        raise GridError(f"{axis.replace('_', '-')} has no value: name at least one")
    if axis == "faults":
        try:
            given = [canonical(str(mix)) for mix in given]
        except ValueError as error:
            raise GridError(str(error)) from None
    return tuple(dict.fromkeys(given))


# ---------------------------------------------------------------- a grid as a TOML file

#     seeds = 2000
#     generation = ["hw", "epoch"]
#     acks = ["1", "all"]
#     min-insync = [1, 2]
#     faults = ["crash", "crash+power", "all"]
#
# Every key may be left out, and a single value needs no brackets.

_KEYS = {axis.replace("_", "-"): axis for axis in AXES}


@dataclass(slots=True, frozen=True)
class GridFile:
    axes: Mapping[str, Values]
    seeds: int | None = None


def read_grid(path: Path) -> GridFile:
    """Raises `GridError`."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise GridError(f"{path}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise GridError(f"{path} is not a TOML file: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at (line \d+, column \d+)", str(error))
        where = place[1] if place else "its end"
        raise GridError(
            f"{path} is not a TOML file: see {where}; write lines like acks = ['1', 'all']"
        ) from None
    try:
        return _grid(content)
    except GridError as error:
        raise GridError(f"{path}: {error}") from None


def _grid(content: Mapping[str, Any]) -> GridFile:
    axes: dict[str, Values] = {}
    seeds: int | None = None
    for key, value in content.items():
        if key == "seeds":
            if type(value) is not int or value < 1:
                raise GridError(f"seeds = {value!r} is no number of trials: write a whole number from 1 on")
            seeds = value
            continue
        axis = _KEYS.get(key.replace("_", "-"))
        if axis is None:
            raise GridError(str(unknown("setting", key, (*_KEYS, "seeds"))))
        axes[axis] = [_value(key, axis, one) for one in (value if isinstance(value, list) else [value])]
    return GridFile(axes, seeds)


def _value(key: str, axis: str, value: Any) -> str | int | bool:
    wanted = type(getattr(Cell(), axis))
    if axis == "acks" and type(value) is int:  # most people write acks = 1
        value = str(value)
    if type(value) is not wanted:
        words = {int: "whole numbers", bool: "true or false", str: "words in quotation marks"}[wanted]
        raise GridError(f"{key} = {value!r}: write {words}")
    assert isinstance(value, str | int)
    return value
