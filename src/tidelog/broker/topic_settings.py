"""What each topic is set to: its own values over this broker's defaults over the table's.

The storage owns the table of settings (``settings/topic.py``); here it meets the topics. A value is
checked when it is set; whatever another tool wrote past that check leaves the topic at its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.settings.topic import LOG_SETTINGS, InvalidLogConfig, LogConfig
from tidelog.storage.file_storage import FileStorage


class Source(IntEnum):
    """Where a value comes from, numbered as on the wire."""

    TOPIC = 1
    BROKER = 4
    DEFAULT = 5


GIVEN_MAX: Final = 1_000
"""Settings that are given for one topic at a time; there are some thirty."""
TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""Kafka's words for what a value is, as on the wire."""


class Described(NamedTuple):
    """One setting as a client sees it."""

    name: str
    value: str
    source: Source
    doc: str
    type: int

    @property
    def is_default(self) -> bool:
        return self.source is not Source.TOPIC


def require_few(settings: Sequence[object]) -> None:
    """``InvalidLogConfig`` for more than anybody means, before anything is made of them."""
    if len(settings) > GIVEN_MAX:
        raise InvalidLogConfig(f"{len(settings)} settings for a topic; up to {GIVEN_MAX} are taken")


class TopicSettings:
    def __init__(self, defaults: Mapping[str, str], storage: FileStorage) -> None:
        self._defaults = dict(defaults)
        self._storage = storage
        self._default = LogConfig.from_properties({}, self._defaults)
        self._configs: dict[str, LogConfig] = {}
        self._overrides: dict[str, dict[str, str]] = {}

    def of(self, topic: str) -> LogConfig:
        return self._configs.get(topic, self._default)

    def overrides(self, topic: str) -> Mapping[str, str]:
        return self._overrides.get(topic, {})

    def checked(self, values: Mapping[str, str]) -> dict[str, str]:
        """``values`` if a topic may have them all, else ``InvalidLogConfig``."""
        LogConfig.from_properties(values, self._defaults)
        return dict(values)

    def configure(self, topic: str, values: Mapping[str, str]) -> None:
        """The keeper has new values for a topic."""
        try:
            config = LogConfig.from_properties(values, self._defaults)
        except InvalidLogConfig:
            config = self._default
        self._overrides[topic] = dict(values)
        self._configs[topic] = config
        self._storage.configure(topic, config)

    def described(self, overrides: Mapping[str, str]) -> list[Described]:
        """Every setting of a topic that has these values of its own."""
        rows = []
        for setting in LOG_SETTINGS:
            name = setting.name
            value, source = setting.default, Source.DEFAULT
            if name in self._defaults and self._defaults[name] != setting.default:
                value, source = self._defaults[name], Source.BROKER
            if name in overrides:
                value, source = overrides[name], Source.TOPIC
            rows.append(Described(name, value, source, setting.doc, TYPES[setting.type]))
        return rows
