"""Load settings from properties files and command lines; messages name the file and line.

A wrong value stops the start. An unknown name in a file does not, since Kafka ignores those too: the warning
suggests the nearest name. On a command line, which a person just wrote, it does. Kafka's settings without a
use in tidelog are listed in one line. Each setting of security gets a warning, because ignoring it silently
would be dangerous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.errors import unknown as unknown_name
from tidelog.settings.broker import BROKER, Settings
from tidelog.settings.ignored import REPLACED, is_ignored, is_security
from tidelog.settings.properties import Property, assignment, latest, read
from tidelog.settings.table import SettingsError


class Level(Enum):
    """The log level of a remark."""

    NOTE = "INFO"
    WARNING = "WARN"


class SettingRemark(NamedTuple):
    level: Level
    text: str


class Loaded(NamedTuple):
    """The settings, and remarks about the input."""

    settings: Settings
    remarks: list[SettingRemark]


def load(path: Path | None, overrides: Sequence[str] = (), *, option: str = "--set") -> Loaded:
    """The settings of a file, with `name=value` overrides on top. Raises `SettingsError`."""
    return settle(gather(path, overrides, option=option))


def gather(path: Path | None, overrides: Sequence[str] = (), *, option: str = "--set") -> list[Property]:
    """The entries of a file and of a command line; later entries win. Raises `SettingsError`."""
    entries = [] if path is None else read(path)
    given = [assignment(text, option) for text in overrides]
    for entry in given:
        if _is_unknown(entry.name):
            wrong = unknown_name("setting", entry.name, tuple(BROKER), listed_by="tidelog broker --settings")
            raise SettingsError(str(wrong))
    return entries + given


def _is_unknown(name: str) -> bool:
    known = name in BROKER or name in BROKER.aliases or name in REPLACED
    return not (known or is_security(name) or is_ignored(name))


def settle(entries: Iterable[Property]) -> Loaded:
    """Turn entries into settings. Raises `SettingsError`."""
    values: dict[str, Any] = {}
    unknown: list[Property] = []
    given = {BROKER.aliases.get(name, name): entry for name, entry in latest(entries).items()}
    for name, entry in given.items():
        if name not in BROKER:
            unknown.append(entry)
            continue
        try:
            values[BROKER[name].attribute] = BROKER.parse(entry.name, entry.value)
        except SettingsError as error:
            raise SettingsError(f"{error}, {entry.where}") from None
    settings = Settings(**values)
    return Loaded(settings, [*remarks(unknown), *_doubts(settings)])


def _doubts(settings: Settings) -> list[SettingRemark]:
    """Remarks about values that are accepted but have no effect."""
    if settings.compression_type == "producer":
        return []
    text = f"compression.type={settings.compression_type} has no effect: batches stay as producers send them"
    return [SettingRemark(Level.WARNING, text)]


def remarks(unknown: Iterable[Property]) -> list[SettingRemark]:
    """Remarks about ignored and unknown names."""
    ignored, said = [], []
    for entry in unknown:
        if is_security(entry.name):
            text = f"{entry.name} has no effect: connections are neither encrypted nor authenticated"
            said.append(SettingRemark(Level.WARNING, f"{text}, {entry.where}"))
        elif entry.name in REPLACED:
            text = f"{entry.name} has no effect, {entry.where}: set {REPLACED[entry.name]} instead"
            said.append(SettingRemark(Level.WARNING, text))
        elif is_ignored(entry.name):
            ignored.append(entry.name)
        else:
            said.append(SettingRemark(Level.WARNING, BROKER.unknown(entry.name, f", {entry.where}")))
    if ignored:
        said.append(
            SettingRemark(Level.NOTE, f"settings of Kafka without effect here: {', '.join(sorted(ignored))}")
        )
    return said
