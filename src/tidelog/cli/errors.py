"""How a command ends when it cannot do what it was asked: one line on stderr and exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """What scripts see. The first three are the contract of every command."""

    HELD = 0
    VIOLATED = 1
    REFUSED = 2
    """Wrong usage, or an environment in which the command cannot run."""
    INTERRUPTED = 130
    """Ctrl-C before anything was begun: what shells report for it."""
    OUTPUT_CLOSED = 141
    """Nobody reads our output any more (``| head``): what shells report for a process that SIGPIPE ended."""


class Refusal(Exception):
    """The command cannot be carried out. The message is one line that says what to change."""


class OutputClosed(Exception):
    """The reader of our output went away, as ``head`` does."""


def unknown(what: str, given: str, known: Sequence[str], *, listed_by: str = "") -> Refusal:
    """A name that does not exist, with the nearest ones that do, or the command that lists all of them."""
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    everything = f"{listed_by} lists them all" if listed_by else f"choose one of {', '.join(known)}"
    hint = f"did you mean {' or '.join(near)}?" if near else everything
    return Refusal(f"unknown {what} {given!r}: {hint}")
