"""What a page asks for in a long question, checked field by field, and replies that are not too many."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidelog.core.generations import GENERATIONS
from tidelog.errors import unknown
from tidelog.scenario.line import ScenarioError
from tidelog.scenario.scenario import Scenario, parse
from tidelog.web.play.playing import TEXT_CHARACTERS_MAX, CannotPlay

Item = TypeVar("Item")

SEEDS = 1_000_000_001
REPLY_SECONDS = 0.1
"""How often there is a reply: often enough for a bar that moves, seldom enough to cost nothing."""


def often(items: Iterable[Item]) -> Iterator[Item]:
    """The items that come after a while each, and the last one."""
    said = time.monotonic()
    last: list[Item] = []
    for item in items:
        last = [item]
        if time.monotonic() - said >= REPLY_SECONDS:
            yield item
            last = []
            said = time.monotonic()
    yield from last


@dataclass(slots=True)
class Wanted:
    """What a page asks for, which may be anything."""

    fields: dict[str, Any]

    def number(self, key: str, otherwise: int, least: int, most: int) -> int:
        value = self.fields.get(key, otherwise)
        if not isinstance(value, int) or not least <= value <= most:
            raise CannotPlay(f"{key} must be a number from {least} to {most}")
        return value

    def one_of(self, key: str, otherwise: str, known: tuple[str, ...]) -> str:
        value = self.fields.get(key, otherwise)
        if value not in known:
            raise CannotPlay(str(unknown(key, str(value), known)))
        return str(value)

    def flag(self, key: str) -> bool:
        return self.fields.get(key) is True

    def seed(self) -> int:
        return self.number("seed", 0, 0, SEEDS - 1)

    def generation(self, otherwise: str) -> str:
        return self.one_of("generation", otherwise, tuple(GENERATIONS))

    def scenario(self) -> Scenario | None:
        """The text, if there is one."""
        text = self.fields.get("text")
        if text is None:
            return None
        if not isinstance(text, str) or len(text) > TEXT_CHARACTERS_MAX:
            raise CannotPlay("text must be a scenario")
        try:
            return parse(text, "scenario")
        except ScenarioError as error:
            raise CannotPlay(str(error).removeprefix("scenario: ")) from None

    def story(self) -> Scenario | None:
        """The steps of a text up to one of them, which every schedule begins with."""
        scenario = self.scenario()
        if scenario is None:
            return None
        step = self.number("step", len(scenario.steps), 0, len(scenario.steps))
        return replace(scenario, steps=scenario.steps[:step])
