"""What may fail in a trial: kinds of faults, and mixes of them under short names.

A mix is kinds joined by ``+`` (``crash+power``), or one of the names below. Which of its faults come about in
a trial, when, and to whom, is the seed's business.
"""

from __future__ import annotations

from tidelog.faults import SEARCH_FAULTS
from tidelog.lab.search.schedule import FaultChoice

KINDS = {name: fault.words.en for name, fault in SEARCH_FAULTS.items()}
"""Every kind, in one line each."""

NAMED_MIXES = {
    "none": (),
    "network": ("cut", "reset"),
    "all": ("crash", "pause", "cut", "reset", "keeper", "elect"),
    "all-power": ("crash", "power", "pause", "cut", "reset", "keeper", "elect"),
}
"""``all`` is everything that leaves disks alone."""

POWERFUL = ("power", "blackout")
"""Kinds after which it matters whether a log was flushed."""
PARTING = ("cut", "zone")
"""Kinds that need two zones at least."""
BUDGET = 6
"""Faults in one trial, at most; recoveries are free."""


def kinds_of(mix: str) -> tuple[str, ...]:
    """The kinds in a mix, in the order of `KINDS`. Raises `ValueError` with what to write instead."""
    if mix in NAMED_MIXES:
        return NAMED_MIXES[mix]
    named = mix.split("+")
    for kind in named:
        if kind not in KINDS:
            raise ValueError(
                f"unknown fault {kind!r}: choose from {', '.join(KINDS)}, "
                f"several at once with +, or {', '.join(NAMED_MIXES)}"
            )
    return tuple(kind for kind in KINDS if kind in named)


def canonical(mix: str) -> str:
    """The one name of a mix: `power+crash` and `crash+power` are the same."""
    kinds = kinds_of(mix)
    for name, members in NAMED_MIXES.items():
        if sorted(members) == sorted(kinds):
            return name
    return "+".join(kinds)


def faults_of(mix: str) -> FaultChoice:
    kinds = kinds_of(mix)
    return FaultChoice(kinds, BUDGET if kinds else 0)
