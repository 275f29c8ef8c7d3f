"""How far earlier runs have judged: one small JSON file in a folder of the user's choice.

A run judges only what lies behind it. It is written when a run has come to its end, as a whole.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass, field
from typing import Final

from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place

FILE: Final = "continuity.json"
_VERSION: Final = 1


@dataclass(slots=True)
class State:
    """By partition: offsets below `judged` are judged; `ends` is how far the topic reached."""

    topic: str
    judged: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    topic_id: str | None = None
    accused: int = 0
    """Offsets that runs so far hold against the pipeline."""


def load(folder: str, topic: str) -> State:
    """Raises `PipelineError`."""
    place = Place.of(folder)
    try:
        if place.size(FILE) is None:
            return State(topic)
        known = json.loads(place.read(FILE))
        if known["version"] != _VERSION:
            raise ValueError(f"version {known['version']} is not known")
        found = State(
            known["topic"],
            {int(number): int(offset) for number, offset in known["judged"].items()},
            {int(number): int(offset) for number, offset in known["ends"].items()},
            known["topic_id"],
            int(known["accused"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        words = reason(error) if isinstance(error, OSError) else str(error)
        raise PipelineError(f"the state in {folder} cannot be read ({words}): give another --state") from None
    if found.topic != topic:
        raise PipelineError(f"the state in {folder} is of the topic {found.topic}: give another --state")
    return found


def check_folder(folder: str) -> None:
    """Whether the state can be written, before the run whose end it is. A folder elsewhere is not asked.
    Raises `PipelineError`."""
    path = Place.of(folder).local
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(_not_written(folder, error)) from None
    if not os.access(path, os.W_OK):
        raise PipelineError(_not_written(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES))))


def _not_written(folder: str, error: OSError) -> str:
    return f"the state cannot be written to {folder}: {reason(error)}"


def save(folder: str, state: State) -> None:
    """Raises `PipelineError`."""
    try:
        text = json.dumps({"version": _VERSION, **asdict(state)}, indent=2)
        Place.of(folder).write(FILE, text.encode())
    except OSError as error:
        raise PipelineError(_not_written(folder, error)) from None
