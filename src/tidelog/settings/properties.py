r"""Java properties files, read and written the way `java.util.Properties` does.

Each entry has the file and the line it was read from, so that an error about its value can name them. Rules
of the format: `#` and `!` begin a comment line; a name ends at the first `=`, `:` or blank; a backslash at
the end of a line joins it with the next, whose leading blanks are dropped; `\t \n \r \f` and `\uXXXX` are
escapes, and a backslash before any other character is dropped. The last of several entries with one name
wins.

Java reads these files as Latin-1. This module reads UTF-8 and writes ASCII with escapes, so that both can
read its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.errors import reason
from tidelog.settings.table import SettingsError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAME_END = re.compile(r"(?:\\.|[^\\ \t\f=:])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_TRAILING_BACKSLASHES = re.compile(r"\\+$")


class PropertiesError(SettingsError):
    """The file is not a valid properties file. The message names the place and the reason in one line."""


class Property(NamedTuple):
    """One entry. `where` completes an error message: "line 12 of broker.properties", "--set"."""

    name: str
    value: str
    where: str


def parse(text: str, origin: str) -> list[Property]:
    """All entries in the order of the text. `origin` names the text in messages."""
    entries = []
    for number, line in _logical_lines(text):
        where = f"line {number} of {origin}"
        name_end = _match_end(_NAME_END, line, 0)
        value_start = _match_end(_SEPARATOR, line, name_end)
        name = _unescape(line[:name_end], where)
        if not name:
            raise PropertiesError(f"{line.strip()!r}: expected name=value, {where}")
        entries.append(Property(name, _unescape(line[value_start:], where), where))
    return entries


def read(path: Path) -> list[Property]:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise PropertiesError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise PropertiesError(f"{path}: {reason(error)}") from None
    return parse(text, path.name)


def assignment(text: str, where: str) -> Property:
    """`name=value` from a command line. It has no escapes, because the shell has processed them."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise PropertiesError(f"{text!r}: expected name=value, {where}")
    return Property(name.strip(), value.strip(), where)


def latest(entries: Iterable[Property]) -> dict[str, Property]:
    """The last entry of each name."""
    return {entry.name: entry for entry in entries}


def dump(values: Mapping[str, str], comment: str = "") -> str:
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{_escape(name, name=True)}={_escape(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def write(path: Path, values: Mapping[str, str], comment: str = "") -> None:
    """Replace the file as a whole: a reader sees the old content or the new."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(dump(values, comment), "ascii")
    os.replace(scratch, path)


# ---------------------------------------------------------------- reading


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blank lines, each with its first line
    number."""
    joined, first = "", 0
    # Not `splitlines`: a form feed or U+2028 does not end a line here.
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = line.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = _TRAILING_BACKSLASHES.search(line)
        if backslashes and len(backslashes[0]) % 2:
            joined += line[:-1]
            continue
        joined += line
        if joined:
            yield first, joined
        joined, first = "", 0
    if joined:  # a backslash at the very end of the file
        yield first, joined


def _match_end(pattern: re.Pattern[str], line: str, start: int) -> int:
    found = pattern.match(line, start)
    return found.end() if found else start


def _unescape(text: str, where: str) -> str:
    def replace(found: re.Match[str]) -> str:
        escaped = found[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise PropertiesError(f"{text!r}: \\u needs four hexadecimal digits, {where}")
        return _ESCAPES.get(escaped, escaped)

    # Java writes characters beyond U+FFFF as two escapes, a surrogate pair.
    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---------------------------------------------------------------- writing


def _escape(text: str, *, name: bool = False) -> str:
    special = "\\=: #!" if name else "\\"
    written = []
    for position, character in enumerate(text):
        if character in special or (position == 0 and character in " #!"):
            written.append("\\" + character)
        elif character in "\t\n\r\f":
            written.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif " " <= character <= "~":
            written.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            written += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(written)
