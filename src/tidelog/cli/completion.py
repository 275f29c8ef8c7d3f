"""Completion of names in shells: what each option and argument offers after Tab.

A shell calls ``tidelog`` with ``_TIDELOG_COMPLETE`` set, as the script of ``tidelog completion`` arranges.
Typer finds the option or the argument that the cursor is on, and asks the function named there. Where none is
named, shells complete files.

Rules of the file: nothing here may print, wait or reach for the network, because a user sees only that Tab
does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

VARIABLE: Final = "_TIDELOG_COMPLETE"

Completer = Callable[[str], list[str]]
"""What may be typed in place of this incomplete word."""


def words(*known: str) -> Completer:
    """These words."""

    def complete(incomplete: str) -> list[str]:
        return _beginning_with(incomplete, known)

    return complete


def lists(names: Callable[[], Iterable[str]]) -> Completer:
    """Comma-separated lists of these names: the last name is completed, and none is offered twice."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        left = [name for name in names() if name not in before.split(",")]
        return [f"{before}{comma}{name}" for name in _beginning_with(last, left)]

    return complete


def generations(incomplete: str) -> list[str]:
    from tidelog.core.generations import GENERATIONS

    return _beginning_with(incomplete, GENERATIONS)


def scenarios(incomplete: str) -> list[str]:
    from tidelog.scenario import catalogue

    return _beginning_with(incomplete, catalogue.names())


def invariants(incomplete: str) -> list[str]:
    from tidelog.lab.invariants import INVARIANTS

    return _beginning_with(incomplete, [invariant.name for invariant in INVARIANTS])


def guards(incomplete: str) -> list[str]:
    from dataclasses import fields

    from tidelog.core.guards import Guards

    return _beginning_with(incomplete, [guard.name for guard in fields(Guards)])


def broker_settings(incomplete: str) -> list[str]:
    from tidelog.settings.broker import BROKER

    return _beginning_with(incomplete, [f"{name}=" for name in BROKER])


def topic_settings(incomplete: str) -> list[str]:
    from tidelog.settings.topic import TOPIC

    return _beginning_with(incomplete, [f"{name}=" for name in TOPIC])


def search_faults() -> list[str]:
    from tidelog.faults import SEARCH_FAULTS

    return ["none", *SEARCH_FAULTS]


def trial_faults() -> list[str]:
    from tidelog.faults import TRIAL_FAULTS

    return ["all", "none", *TRIAL_FAULTS]


def _beginning_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
