"""Errors that a user can act on: their base class, and words that many of them share."""

from __future__ import annotations

import errno
from collections.abc import Sequence

_LISTED_MAX = 20
"""Names that an error lists, at most."""


class Refusal(Exception):
    """What was asked cannot be done. The message is one line that says why, and what to change.

    Packages derive their own errors from it. A command prints the line and exits with code 2; any other
    exception that reaches the command line is a bug.
    """


def reason(error: OSError) -> str:
    """Why a file or a socket cannot be used."""
    hint = "; make room or choose another folder" if error.errno == errno.ENOSPC else ""
    return (error.strerror or str(error)).lower() + hint


def not_json(error: Exception) -> str:
    """Why a text is not the JSON that was expected, without the sentences of the parser."""
    line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
    if line is None:
        return "it does not hold what it should"
    return f"it is damaged, line {line}, column {column} is not JSON"


def unknown(what: str, given: str, known: Sequence[str], *, listed_by: str = "") -> Refusal:
    """The refusal of an unknown name. It suggests the nearest known names, or the command that lists them."""
    import difflib  # imported here, because most processes never need it

    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    several = f"{', '.join(known[:_LISTED_MAX])}{', …' if len(known) > _LISTED_MAX else ''}"
    everything = f"{listed_by} lists them all" if listed_by else f"choose one of {several}"
    hint = f"did you mean {' or '.join(near)}?" if near else everything
    return Refusal(f"unknown {what} {given!r}: {hint}")
