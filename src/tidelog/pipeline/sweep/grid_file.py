"""A grid as a small TOML file, so that a sweep can be kept and run again.

    seeds = 2000
    generation = ["hw", "epoch"]
    acks = ["1", "all"]
    min-insync = [1, 2]
    faults = ["crash", "crash+power", "all"]

Every key may be left out, and a single value needs no brackets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.errors import reason, unknown
from tidelog.pipeline.sweep.grid import AXES, GridError, Values

_KEYS = {axis.replace("_", "-"): axis for axis in AXES}
_TYPES: dict[str, type] = {
    "replicas": int,
    "min_insync": int,
    "retries": int,
    "zones": int,
    "unclean": bool,
    "idempotent": bool,
}
"""The others are words; of `without`, the empty one is a sound system."""


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GridError(f"{path} is not a TOML file: {str(error).splitlines()[0].lower()}") from None
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
    wanted = _TYPES.get(axis, str)
    if axis == "acks" and type(value) is int:  # acks = 1 is what everybody writes
        value = str(value)
    if type(value) is not wanted:
        words = {int: "whole numbers", bool: "true or false", str: "words in quotation marks"}[wanted]
        raise GridError(f"{key} = {value!r}: write {words}")
    assert isinstance(value, str | int)
    return value
