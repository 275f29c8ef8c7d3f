"""EDN, the notation of Clojure's data, read form by form from a stream.

Rules of the file:

* Strict: a form that is not EDN raises `EdnError` with its line and column. Some notations beyond EDN that
  histories contain (``##Inf``, ``0x1f`` inside an ``#object``) are read as well.
* Only one top-level form is in memory; a top-level vector or list is opened, and its elements are the forms.
* Vectors and lists become tuples, sets frozensets, maps dicts. A map inside of a set or as a key of another
  map becomes a frozenset of its pairs, because it has to be hashable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn, Self, TextIO

Form = Any

_CHUNK: Final = 1 << 20
_LOOKAHEAD: Final = 1 << 16
_DEPTH_MAX: Final = 200

_SPACE: Final = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_TOKEN: Final = re.compile(r"[^\s,;\"\[\](){}\\@^`~]+")
_ATOM: Final = re.compile(r"[\s,]*([^\s,;\"\[\](){}\\@^`~#][^\s,;\"\[\](){}\\@^`~]*)")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTER: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}\b|[a-z]+|\S)")
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?|[+-]?0[xX][0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_NAME: Final = re.compile(r"(?:[^\s/:#0-9'][^\s/]*/)?[^\s/:#0-9'][^\s/]*|/")

_CLOSING: Final = {"[": "]", "(": ")"}
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_CHARACTERS: Final = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t"}
_WORDS: Final = {"nil": None, "true": True, "false": False}
_SYMBOLIC: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_NOTHING: Final = object()
"""The result of a discarded form."""


class EdnError(ValueError):
    """The text is not EDN. The message names line and column."""


class Keyword:
    """One object per name, so that comparison and lookup by identity are fast."""

    __slots__ = ("name",)
    _known: ClassVar[dict[str, Keyword]] = {}
    name: str

    def __new__(cls, name: str) -> Self:
        found = cls._known.get(name)
        if found is None:
            found = cls._known[name] = super().__new__(cls)
            found.name = name
        return found  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f":{self.name}"


@dataclass(slots=True, frozen=True)
class Symbol:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True, frozen=True)
class Tagged:
    tag: str
    form: Form


def read_forms(stream: TextIO) -> Iterator[Form]:
    """The top-level forms of a stream; of a vector or list, its elements."""
    reader = _Reader(stream)
    while (opened := reader.next_start()) != "":
        if opened in "[(":
            yield from reader.elements(_CLOSING[opened])
        elif (form := reader.form(opened, 0)) is not _NOTHING:
            yield form


def written(form: Form) -> str:
    """A form as text, which identifies a value. A string is written without quotes."""
    match form:
        case str():
            return form
        case None:
            return "nil"
        case bool():
            return "true" if form else "false"
        case tuple():
            return f"[{' '.join(map(written, form))}]"
        case frozenset():
            return f"#{{{' '.join(sorted(map(written, form)))}}}"
        case dict():
            return f"{{{', '.join(f'{written(key)} {written(value)}' for key, value in form.items())}}}"
        case Tagged():
            return f"#{form.tag} {written(form.form)}"
    return str(form)


class _Reader:
    """`_at` is the position in `_text`, the part of the stream that is still needed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._ended = False
        self._passed = 0
        self._lines_passed = 0
        self._columns_passed = 0
        self._known: dict[str, Form] = dict(_WORDS)
        """Cache of tokens: there are few different keywords."""

    # ------------------------------------------------------------ the stream

    def _more(self) -> bool:
        """Read more of the stream, and drop the part before `_at`."""
        if self._ended or not (read := self._stream.read(_CHUNK)):
            self._ended = True
            return False
        passed = self._text[: self._at]
        self._passed += len(passed)
        self._lines_passed += passed.count("\n")
        line = passed.rfind("\n")
        self._columns_passed = len(passed) - line - 1 + (self._columns_passed if line < 0 else 0)
        self._text = self._text[self._at :] + read
        self._at = 0
        return True

    def _fail(self, why: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        line = self._text.rfind("\n", 0, at)
        column = at - line + (self._columns_passed if line < 0 else 0)
        number = self._lines_passed + self._text.count("\n", 0, at) + 1
        raise EdnError(f"line {number}, column {column}: {why}")

    def _take(self, pattern: re.Pattern[str]) -> str:
        """The match at this position, with more of the stream if necessary; or nothing."""
        found = pattern.match(self._text, self._at)
        while (found is None or found.end() == len(self._text)) and self._more():
            found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def next_start(self) -> str:
        """The character with which the next form begins; empty at the end."""
        start = self._text[self._at : self._at + 1]
        if start and start not in " ,\n;\t\r":
            return start
        if len(self._text) - self._at < _LOOKAHEAD:
            self._more()
        found = _SPACE.match(self._text, self._at)
        while found is not None and found.end() == len(self._text) and self._more():
            found = _SPACE.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return self._text[self._at : self._at + 1]

    # ------------------------------------------------------------ forms

    def elements(self, closing: str, depth: int = 0) -> Iterator[Form]:
        """The forms between brackets; the opening one is next."""
        opened = self._passed + self._at
        self._at += 1
        while True:
            # Fast path: most elements are atoms that are already completely read.
            atom = _ATOM.match(self._text, self._at)
            if atom is not None and atom.end() < len(self._text):
                self._at = atom.end()
                yield self._atom(atom[1])
                continue
            if (start := self.next_start()) == closing:
                break
            if not start:
                behind = self._passed + self._at - opened
                self._fail(f"{closing} is missing: what it would close began {behind:,} characters before")
            if (form := self.form(start, depth + 1)) is not _NOTHING:
                yield form
        self._at += 1

    def form(self, start: str, depth: int) -> Form:
        """The next form, which begins here with `start`; `_NOTHING` if it was discarded."""
        if depth > _DEPTH_MAX:
            self._fail("nested too deeply")
        if start and start in "[(":
            return tuple(self.elements(_CLOSING[start], depth))
        if start == "{":
            return self._map(depth)
        if start == '"':
            return self._string()
        if start == "\\":
            return self._character()
        if start == "#":
            return self._dispatched(depth)
        token = self._take(_TOKEN)
        if not token:
            self._fail(f"{start!r} does not belong here" if start else "a form is missing at the end")
        return self._atom(token)

    def _present(self, depth: int, what: str) -> Form:
        """A form that must follow; discarded forms are skipped."""
        form = _NOTHING
        while form is _NOTHING:
            if (start := self.next_start()) in ("", "]", ")", "}"):
                self._fail(f"{what} is not followed by a form")
            form = self.form(start, depth + 1)
        return form

    def _atom(self, token: str) -> Form:
        if token in self._known:
            return self._known[token]
        first = token[0]
        if first == ":":
            if not _NAME.fullmatch(token, 1):
                self._fail(f"{token} is no keyword", self._at - len(token))
            return self._known.setdefault(token, Keyword(token[1:]))
        if first.isdigit() or (first in "+-" and token[1:2].isdigit()):
            if _INTEGER.fullmatch(token):
                return int(token.rstrip("N"), 16 if token[:3].lower().lstrip("+-")[:2] == "0x" else 10)
            if _FLOAT.fullmatch(token):
                return float(token.rstrip("M"))
            self._fail(f"{token} is no number", self._at - len(token))
        if not _NAME.fullmatch(token):
            self._fail(f"{token} is no symbol", self._at - len(token))
        return Symbol(token)

    def _map(self, depth: int) -> dict[Form, Form]:
        forms = list(self.elements("}", depth))
        if len(forms) % 2:
            self._fail("this map ends with a key that has no value", self._at - 1)
        found = {hashable(key): value for key, value in zip(forms[::2], forms[1::2], strict=True)}
        if 2 * len(found) != len(forms):
            self._fail("this map has a key twice", self._at - 1)
        return found

    def _string(self) -> str:
        text = self._take(_STRING)
        if not text:
            self._fail("this text has no end")
        return _ESCAPE.sub(self._escaped, text[1:-1]) if "\\" in text else text[1:-1]

    def _escaped(self, found: re.Match[str]) -> str:
        code = found[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            self._fail(f"\\{code} means nothing in the text that ends here")
        return _ESCAPES[code]

    def _character(self) -> str:
        text = self._take(_CHARACTER)[1:]
        if len(text) == 5 and text[0] == "u":
            return chr(int(text[1:], 16))
        if len(text) > 1 and text not in _CHARACTERS:
            self._fail(f"\\{text} is no character", self._at - len(text) - 1)
        if not text:
            self._fail("\\ is not followed by a character")
        return _CHARACTERS.get(text, text)

    def _dispatched(self, depth: int) -> Form:
        if len(self._text) - self._at < 2:
            self._more()
        second = self._text[self._at + 1 : self._at + 2]
        if second == "{":
            self._at += 1
            forms = list(map(hashable, self.elements("}", depth)))
            if len(found := frozenset(forms)) != len(forms):
                self._fail("this set has an element twice", self._at - 1)
            return found
        if second == "_":
            self._at += 2
            self._present(depth, "#_")
            return _NOTHING
        token = self._take(_TOKEN)
        if token in _SYMBOLIC:
            return _SYMBOLIC[token]
        if not _NAME.fullmatch(token.lstrip("#:"), 0) or token.startswith("##"):
            self._fail(f"{token} is no tag", self._at - len(token))
        return Tagged(token[1:], self._present(depth, token))


def hashable(form: Form) -> Form:
    """The form itself, or for a map a hashable value with the same equality."""
    if isinstance(form, dict):
        return frozenset((key, hashable(value)) for key, value in form.items())
    if isinstance(form, tuple):
        return tuple(map(hashable, form))
    return Tagged(form.tag, hashable(form.form)) if isinstance(form, Tagged) else form
