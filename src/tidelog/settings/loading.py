"""Settings from properties files and command lines, with complaints that say where to look.

A wrong value stops the start. A name nobody knows does not, since Kafka ignores those too: it is answered
with the nearest name there is. Names that Kafka knows and we do not need are noted in one line together;
those that promise security are warned about, because ignoring them in silence would be a lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.settings.broker import ALIASES, REQUIRED, Settings, SettingsError, table
from tidelog.settings.ignored import REPLACED, is_ignored, is_security
from tidelog.settings.properties import PropertiesError, Property, assignment, latest, read


class Level(Enum):
    """How loud a remark is, in the words of log lines."""

    NOTE = "INFO"
    WARNING = "WARN"


class Remark(NamedTuple):
    level: Level
    text: str


class Loaded(NamedTuple):
    """Settings to run with, and what there is to say about how they were given."""

    settings: Settings
    remarks: list[Remark]


def load(path: Path | None, overrides: Sequence[str] = (), *, option: str = "--set") -> Loaded:
    """The settings of a file, with `name=value` overrides on top. Raises `SettingsError`."""
    return settle(gather(path, overrides, option=option))


def gather(path: Path | None, overrides: Sequence[str] = (), *, option: str = "--set") -> list[Property]:
    """The entries of a file and of a command line, later ones counting. Raises `SettingsError`."""
    try:
        entries = [] if path is None else read(path)
        return entries + [assignment(text, option) for text in overrides]
    except PropertiesError as error:
        raise SettingsError(str(error)) from None


def settle(entries: Iterable[Property]) -> Loaded:
    """Turn entries into settings. Raises `SettingsError`."""
    values: dict[str, Any] = {}
    unknown: list[Property] = []
    known = table()
    given = {ALIASES.get(name, name): entry for name, entry in latest(entries).items()}
    for name, entry in given.items():
        if name in known:
            values[known[name].attribute] = _value(name, entry)
        else:
            unknown.append(entry)
    for setting in known.values():
        if setting.default is REQUIRED and setting.attribute not in values:
            text = f"{setting.name} is missing: {setting.doc[0].lower()}{setting.doc[1:]}"
            raise SettingsError(text, lacks=setting.name)
    settings = Settings(**values)
    return Loaded(settings, [*remarks(unknown), *_doubts(settings)])


def _doubts(settings: Settings) -> list[Remark]:
    """Values that are accepted and do less than they promise."""
    if settings.compression_type == "producer":
        return []
    text = f"compression.type={settings.compression_type} has no effect: batches stay as producers send them"
    return [Remark(Level.WARNING, text)]


def _value(name: str, entry: Property) -> Any:
    setting = table()[name]
    text = entry.value.strip()
    # What is optional may be left empty, as the lines of sample files often are.
    if not text and setting.default in (None, ""):
        return setting.default
    try:
        return setting.kind.parse(text)
    except ValueError as error:
        raise SettingsError(f"{entry.name}={entry.value}: {error}, {entry.where}") from None


def remarks(unknown: Iterable[Property]) -> list[Remark]:
    """What to say about names that are not ours."""
    ignored, said = [], []
    for entry in unknown:
        if is_security(entry.name):
            text = f"{entry.name} has no effect: connections are neither encrypted nor authenticated"
            said.append(Remark(Level.WARNING, f"{text}, {entry.where}"))
        elif entry.name in REPLACED:
            text = f"{entry.name} has no effect, {entry.where}: set {REPLACED[entry.name]} instead"
            said.append(Remark(Level.WARNING, text))
        elif is_ignored(entry.name):
            ignored.append(entry.name)
        else:
            said.append(
                Remark(Level.WARNING, f"unknown setting {entry.name}, {entry.where}{_hint(entry.name)}")
            )
    if ignored:
        said.append(
            Remark(Level.NOTE, f"settings of Kafka without effect here: {', '.join(sorted(ignored))}")
        )
    return said


def _hint(name: str) -> str:
    import difflib  # here, because most brokers start without it

    near = difflib.get_close_matches(name, [*table(), *ALIASES], n=1, cutoff=0.6)
    return f": did you mean {near[0]}?" if near else ""
