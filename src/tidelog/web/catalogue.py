"""The catalogue as the page lists it: titles, a lead for each scenario, and what its author expects of it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from tidelog._version import __version__
from tidelog.core.generations import GENERATIONS
from tidelog.narrate.phrasebook import LANGUAGES, phrasebook
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import Scenario

SHARED = ("phrases", "channels", "messages", "verbs", "conditions", "rules", "glossary", "texts")
"""The parts of the phrasebook from which the page speaks; what is English already has no `texts`."""


def static() -> Traversable:
    return files("tidelog.web") / "static"


@cache
def words() -> dict[str, Any]:
    """Everything that the page says, by language: its own words, and those that it shares with others."""
    found: dict[str, Any] = json.loads((static() / "words.json").read_text("utf-8"))
    for language in LANGUAGES:
        shared = phrasebook(language).words
        found[language] |= {part: shared[part] for part in SHARED if part in shared}
    return found


@cache
def leads() -> dict[str, str]:
    """Two sentences for each scenario: what one is about to see."""
    found: dict[str, str] = json.loads((static() / "leads.json").read_text("utf-8"))
    return found


@cache
def shelf() -> dict[str, Any]:
    return {
        "version": __version__,
        "generations": [{"name": g.name, "summary": g.summary} for g in GENERATIONS.values()],
        "groups": [
            {"title": group.title, "scenarios": [_card(catalogue.load(name)) for name in group.names]}
            for group in catalogue.groups()
        ],
    }


def _card(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "lead": leads().get(scenario.name, ""),
        "source": scenario.source,
        "expect": {expectation.generation: expectation.facts for expectation in scenario.expectations},
    }
