"""One line of a scenario file: words that know their columns, and errors that say what was expected there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.errors import Refusal
from tidelog.settings.kinds import Kind

DIGITS_MAX = 18


class ScenarioError(Refusal, ValueError):
    """A scenario file cannot be read. The message names file, line, column and what was expected."""


def is_number(word: str) -> bool:
    """Digits as on a keyboard: ``str.isdigit`` knows many more. And no more than a number here needs: Python
    refuses to read thousands of them."""
    return word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX


class Line:
    """One line of a file, split into words that know their columns."""

    __slots__ = ("_columns", "_origin", "_text", "number_in_file", "words")

    def __init__(self, origin: str, number: int, text: str) -> None:
        self._origin, self.number_in_file, self._text = origin, number, text
        self.words: list[str] = []
        self._columns: list[int] = []
        position = 0
        for word in text.split():
            position = text.index(word, position)
            self.words.append(word)
            self._columns.append(position)
            position += len(word)

    def with_words(self, words: list[str]) -> Line:
        """The same place in the file, with other words: those without the punctuation around them."""
        line = Line(self._origin, self.number_in_file, self._text)
        line.words = words
        return line

    def refusal(self, index: int, why: str) -> ScenarioError:
        """An error in words of its own, at a word of this line."""
        return ScenarioError(f"{self._place(index)}: {why}")

    def setting(self, key: str) -> int:
        """The index of the word KEY=VALUE, or of the line's first word."""
        return next((i for i, word in enumerate(self.words) if word.partition("=")[0] == key), 0)

    def error(self, index: int, expected: str) -> ScenarioError:
        found = f", found {self.words[index]!r}" if index < len(self.words) else ", found the end of the line"
        return ScenarioError(f"{self._place(index)}: expected {expected}{found}")

    def _place(self, index: int) -> str:
        column = self._columns[index] if index < len(self._columns) else len(self._text.rstrip()) + 1
        return f"{self._origin}: line {self.number_in_file}, column {column + 1}"

    def word(self, index: int) -> str:
        return self.words[index] if index < len(self.words) else ""

    def need(self, index: int, expected: str) -> str:
        if index >= len(self.words):
            raise self.error(index, expected)
        return self.words[index]

    def rest(self, index: int) -> str:
        return self._text[self._columns[index] :].strip() if index < len(self.words) else ""

    def end(self, index: int) -> None:
        if index < len(self.words):
            raise self.error(index, "the end of the line")

    def number(self, index: int, what: str) -> int:
        word = self.need(index, what)
        if not is_number(word.removeprefix("-")):
            raise self.error(index, what)
        return int(word)

    def settings(self, start: int, allowed: Mapping[str, Kind[Any]]) -> dict[str, Any]:
        """The values of KEY=VALUE words from ``start`` on."""
        found: dict[str, Any] = {}
        for index in range(start, len(self.words)):
            key, equals, value = self.words[index].partition("=")
            if not equals or not value or key not in allowed:
                near = difflib.get_close_matches(key, allowed, 1)
                hint = f" (did you mean {near[0]}?)" if near and near[0] != key else ""
                raise self.error(index, f"KEY=VALUE with KEY one of {', '.join(allowed)}{hint}")
            if key in found:
                raise self.error(index, f"{key}= only once")
            try:
                found[key] = allowed[key].parse(value)
            except ValueError as error:
                raise self.refusal(index, f"{self.words[index]}: {error}") from None
        return found


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""
