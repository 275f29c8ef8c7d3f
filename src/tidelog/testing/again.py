"""The command that runs one test again, on such a cluster, from the folder in which pytest was started."""

from __future__ import annotations

import os
import shlex
from typing import Any, Final

import pytest

from tidelog.testing.options import BROKERS, GENERATION

_DEFAULTS: Final[dict[str, Any]] = {"--kafka-brokers": BROKERS, "--kafka-generation": GENERATION}
_SPECIAL: Final = frozenset('"$`\\!')
"""What a shell reads in double quotes."""


def command_for(item: pytest.Item, schedule: str = "") -> str:
    """`schedule`: one line of faults."""
    _, colons, names = item.nodeid.partition("::")
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    words = ["pytest", _quoted(f"{file}{colons}{names}")]
    for name, default in _DEFAULTS.items():
        if (given := item.config.getoption(name)) != default:
            words.append(f"{name}={shlex.quote(str(given))}")
    if schedule:
        words.append(f"--kafka-schedule={_quoted(schedule)}")
    return " ".join(words)


def _quoted(text: str) -> str:
    return f'"{text}"' if _SPECIAL.isdisjoint(text) else shlex.quote(text)
