"""Exit codes, and the end of a command whose output is closed."""

from __future__ import annotations

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


class OutputClosed(Exception):
    """The reader of the output closed the pipe, as ``head`` does."""
