"""What a section needs to know about its reader: the language, the names of places on the page, and links.

The page holds itself once for each language, and a switch without a script shows one of them. So every name
of a place begins with its language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.narrate.phrasebook import Phrase, Phrasebook
from tidelog.pipeline.report.html import Markup, el
from tidelog.pipeline.report.timeline import Timeline

HTML_LANGUAGES = {"en": "en", "zh": "zh-Hans"}


@dataclass(slots=True, frozen=True)
class Speaker:
    """Says words by their key."""

    book: Phrasebook

    def say(self, key: str, /, **fields: str | int | Phrase) -> str:
        return self.book.say(Phrase(key, fields))

    def told(self, story: Sequence[Any]) -> str | None:
        """The story of a finding; nothing if it has phrases of another version's audit."""
        try:
            return "".join(
                self.book.say(Phrase.from_json(part)) if isinstance(part, dict) else str(part)
                for part in story
            )
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def sentences(self, *said: str) -> str:
        return ("" if self.book.language == "zh" else " ").join(filter(None, said))

    def listed(self, items: list[str]) -> str:
        return ("、" if self.book.language == "zh" else ", ").join(items)

    def anchor(self, name: str) -> str:
        return f"{self.book.language}-{name}"


@dataclass(slots=True)
class Links:
    """Links from a finding to its moment and to its partition, where those are drawn."""

    speaker: Speaker
    timeline: Timeline
    began_us: int | None
    drawn: bool
    marked: dict[int, str] = field(default_factory=dict)
    """Moments (ms) that something on the page links to, and how each is written."""

    def moment(self, time_us: int | None) -> Markup | str | None:
        """When, from the beginning of the load."""
        if time_us is None or self.began_us is None:
            return None
        ms = (time_us - self.began_us) // 1000
        text = f"{ms / 1000:.3f} s"
        if not self.drawn or not 0 <= ms <= self.timeline.span_ms:
            return text
        self.marked[ms] = text
        return el("a", text, href=f"#{self.speaker.anchor(f'at-{ms}')}")

    def partition(self, topic: object, partition: object, shown: str) -> Markup | str:
        for number, story in enumerate(self.timeline.partitions):
            if story.place == (topic, partition) and (story.states or story.unavailable):
                return el("a", shown, href=f"#{self.speaker.anchor(f'lane-{number}')}")
        return shown

    def markers(self) -> list[Markup]:
        """Lines through all charts of the timeline; the one that was followed is seen."""
        span = max(self.timeline.span_ms, 1)
        return [
            el(
                "i",
                el("b", text),
                id=self.speaker.anchor(f"at-{ms}"),
                class_="moment",
                style=f"--at:{ms / span:.4f}",
            )
            for ms, text in sorted(self.marked.items())
        ]
