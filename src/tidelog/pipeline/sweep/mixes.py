"""What may fail in a trial: kinds of faults, and mixes of them under short names.

A mix is kinds joined by ``+`` (``crash+power``), or one of the names below. Which of its faults come about in
a trial, when, and to whom, is the seed's business.
"""

from __future__ import annotations

from tidelog.lab.search.schedule import ALL_FAULT_KINDS, FaultChoice

KINDS = {
    "crash": "a broker's process dies (kill -9); its disk keeps everything",
    "power": "a broker's machine loses power; what was not flushed is gone",
    "pause": "a broker stands still (a long collection, a frozen machine) and comes back",
    "cut": "a link between two zones, or of one zone to all others, is cut",
    "zone": "a whole zone is cut off from the others",
    "blackout": "all brokers of a zone lose power at once",
    "reset": "connections between two brokers break and are made anew",
    "keeper": "a member of the coordination service stops",
    "elect": "an operator asks for the preferred leader",
}
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
    return FaultChoice(**{kind: kind in kinds for kind in ALL_FAULT_KINDS}, budget=BUDGET if kinds else 0)
