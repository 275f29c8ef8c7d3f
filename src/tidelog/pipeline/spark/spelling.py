"""The words of narrate as SQL, so that a story is told wherever the rows are."""

from __future__ import annotations

from string import Formatter

from tidelog.narrate.phrasebook import ENGLISH


def quoted(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spelled(key: str, **fields: str) -> str:
    """SQL for a phrase whose fields are SQL; null if one of them is."""
    parts = []
    for text, name, _, _ in Formatter().parse(ENGLISH.templates[key]):
        if text:
            parts.append(quoted(text))
        if name is not None:
            parts.append(fields[name])
    return f"concat({', '.join(parts)})"
