"""Scenario files in colour: comments are faint; settings and commands are bold."""

from __future__ import annotations

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.scenario.scenario import OUTPUT_MARK

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
