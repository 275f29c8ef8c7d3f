"""The list of scenarios: names, titles, and the outcome under each generation."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import rule, wrap
from tidelog.cli.show.run import page_width
from tidelog.narrate.verdict import outcome
from tidelog.scenario.scenario import OUTPUT_MARK, Scenario

Listed = list[tuple[str, list[Scenario]]]
"""Groups in order: title and scenarios."""


def listing(screen: Console, groups: Listed) -> list[Text]:
    width = page_width(screen)
    names = [scenario.name for _, scenarios in groups for scenario in scenarios]
    indent = min(max(map(len, names), default=0) + 2, 32)
    lines: list[Text] = []
    for title, scenarios in groups:
        if title:
            lines += (
                [Text(), rule(title, width, palette.STRONG)]
                if lines
                else [rule(title, width, palette.STRONG)]
            )
        for scenario in scenarios:
            lines += _entry(screen, scenario, indent, width)
    return lines


def _entry(screen: Console, scenario: Scenario, indent: int, width: int) -> list[Text]:
    about = wrap(screen, scenario.title, width, indent) or [Text(" " * indent)]
    name = Text(f"{scenario.name:<{indent}}", palette.COMMAND)
    if len(scenario.name) >= indent:
        lines = [name, *about]
    else:
        lines = [name.append_text(about[0][indent:]), *about[1:]]
    return lines + wrap(screen, outcomes_text(scenario), width, indent)


def outcomes_text(scenario: Scenario) -> Text:
    """``hw: lost c; kip101, epoch: held``. Generations with the same outcome share an entry."""
    alike: dict[str, list[str]] = {}
    for expectation in scenario.expectations:
        alike.setdefault(outcome(expectation), []).append(expectation.generation)
    text = Text()
    for result, generations in alike.items():
        if text:
            text.append("; ")
        text.append(f"{', '.join(generations)}: ")
        text.append(result, palette.GOOD if result == "held" else palette.BAD)
    return text


def as_json(groups: Listed) -> list[dict[str, Any]]:
    return [
        {
            "name": scenario.name,
            "group": title,
            "title": scenario.title,
            "source": scenario.source,
            "expect": {
                expectation.generation: {"outcome": outcome(expectation), "facts": expectation.facts}
                for expectation in scenario.expectations
            },
        }
        for title, scenarios in groups
        for scenario in scenarios
    ]


# ---------------------------------------------------------------- scenario files

_HEAD = ("scenario", "title", "source", "cluster", "topic", "producer", "consumer", "expect")


def highlighted(text: str) -> list[Text]:
    """The lines of the file with colours. The text does not change."""
    lines, in_output = [], False
    for raw in text.splitlines():
        line = Text(raw)
        word = raw.split(maxsplit=1)[0] if raw.strip() else ""
        in_output = word != "" and (in_output or word == OUTPUT_MARK)
        start = len(raw) - len(raw.lstrip())
        if in_output or word.startswith("#"):
            line.stylize(palette.FAINT)
        elif word:
            line.stylize(palette.STRONG if word in _HEAD else palette.COMMAND, start, start + len(word))
        lines.append(line)
    return lines
