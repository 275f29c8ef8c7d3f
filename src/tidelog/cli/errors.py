"""Exit codes, and the errors that end a command: one line on stderr and exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes. The first three mean the same in every command."""

    HELD = 0
    VIOLATED = 1
    REFUSED = 2
    """Wrong usage, or an environment in which the command cannot run."""
    INTERRUPTED = 130
    """Ctrl-C before the command did anything. Shells report SIGINT as 130."""
    OUTPUT_CLOSED = 141
    """The reader of the output is gone (``| head``). Shells report SIGPIPE as 141."""


class Refusal(Exception):
    """The command cannot run. The message is one line that says what to change."""


class OutputClosed(Exception):
    """The reader of the output closed the pipe, as ``head`` does."""


def unknown(what: str, given: str, known: Sequence[str], *, listed_by: str = "") -> Refusal:
    """The refusal of an unknown name. It suggests the nearest known names, or the command that lists them."""
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    everything = f"{listed_by} lists them all" if listed_by else f"choose one of {', '.join(known)}"
    hint = f"did you mean {' or '.join(near)}?" if near else everything
    return Refusal(f"unknown {what} {given!r}: {hint}")
