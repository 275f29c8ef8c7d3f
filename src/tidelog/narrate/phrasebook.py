"""Phrases, and the books that say them.

``words/<language>.json`` has a template for each key: under ``phrases``, under ``inside`` (what brokers,
keeper members and clients know), under ``audit`` (what an audit found), under ``report`` (of its page), under
``causes`` and ``details`` (of a finding), ``anomalies`` and ``unjudged`` (of an audit), ``table`` (of a topic
beside a table), and, only in English, under ``log`` (lines of a broker's log) and ``verdict`` (of a run).
Causes are counted under their English names; ``cause_rules`` has those names in other languages.
A template names fields in braces. A field is a number, a text that is the same in every language (a name, an
offset, a list of brokers), or a phrase. Where a language distinguishes one from many, ``|`` separates both
forms; the field ``count`` decides.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterable, Mapping
from functools import cache, cached_property, reduce
from importlib.resources import files
from typing import Any, NamedTuple

from tidelog.faults import FAULTS

LANGUAGES = ("en", "zh")
_PARTS = (
    *("phrases", "inside", "audit", "report", "causes"),
    *("details", "anomalies", "unjudged", "table"),
)

Fields = Mapping[str, "str | int | Phrase"]


class Phrase(NamedTuple):
    key: str
    fields: Fields = {}  # noqa: RUF012

    @classmethod
    def of(cls, key: str, /, **fields: str | int | Phrase) -> Phrase:
        return cls(key, fields)

    def as_json(self) -> dict[str, Any]:
        found = {
            name: value.as_json() if isinstance(value, Phrase) else value
            for name, value in self.fields.items()
        }
        return {"key": self.key, **({"fields": found} if found else {})}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Phrase:
        fields = found.get("fields", {})
        return cls(
            found["key"],
            {name: cls.from_json(v) if isinstance(v, Mapping) else v for name, v in fields.items()},
        )


class Phrasebook:
    def __init__(self, language: str) -> None:
        self.language = language

    @cached_property
    def words(self) -> dict[str, Any]:
        """The whole file, and what faults say about their own steps."""
        text = (files("tidelog.narrate") / "words" / f"{self.language}.json").read_text("utf-8")
        found: dict[str, Any] = json.loads(text)
        own = {fault.verb: fault.says._asdict()[self.language] for fault in FAULTS if fault.says is not None}
        found["verbs"].update(own)
        return found

    @cached_property
    def templates(self) -> dict[str, str]:
        words = self.words
        english = (words.get(part, {}) for part in ("log", "verdict"))
        both = (words[part] for part in _PARTS)
        return dict(ChainMap(*both, *english))

    def say(self, phrase: Phrase) -> str:
        fields = {
            name: self.say(value) if isinstance(value, Phrase) else value
            for name, value in phrase.fields.items()
        }
        one, _, many = self.templates[phrase.key].partition("|")
        return (many if many and fields["count"] != 1 else one).format_map(fields)

    def rule(self, name: str) -> str:
        """The name of a cause; one of another version's audit stays as it is."""
        found: str = self.words.get("cause_rules", {}).get(name, name)
        return found


@cache
def phrasebook(language: str) -> Phrasebook:
    return Phrasebook(language)


ENGLISH = phrasebook("en")
say = ENGLISH.say


def words(key: str, /, **fields: str | int | Phrase) -> str:
    """A phrase in English, at once."""
    return say(Phrase(key, fields))


def joined(phrases: Iterable[Phrase], by: str) -> Phrase:
    """One after the other. `by` is the key of a phrase that has a `first` and a `second`."""
    return reduce(lambda first, second: Phrase.of(by, first=first, second=second), phrases)
