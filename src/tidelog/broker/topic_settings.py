"""What each topic is set to: its own values over this broker's defaults over the table's.

A value is checked when it is set; whatever another tool wrote past that check leaves the topic at its
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.settings.table import Described, SettingsError, Source
from tidelog.settings.topic import TOPIC, LogConfig
from tidelog.storage.file_storage import FileStorage

GIVEN_MAX: Final = 1_000
"""Settings that are given for one topic at a time; there are some thirty."""


def require_few(settings: Sequence[object]) -> None:
    """``SettingsError`` for too many, before any is read."""
    if len(settings) > GIVEN_MAX:
        raise SettingsError(f"{len(settings)} settings for a topic; up to {GIVEN_MAX} are taken")


class TopicSettings:
    def __init__(self, defaults: Mapping[str, str], storage: FileStorage) -> None:
        self._defaults = dict(defaults)
        self._storage = storage
        self._default = LogConfig.from_properties({}, self._defaults)
        self._chosen = self._default.chosen()
        self._configs: dict[str, LogConfig] = {}
        self._overrides: dict[str, dict[str, str]] = {}

    def of(self, topic: str) -> LogConfig:
        return self._configs.get(topic, self._default)

    def overrides(self, topic: str) -> Mapping[str, str]:
        return self._overrides.get(topic, {})

    def checked(self, values: Mapping[str, str]) -> dict[str, str]:
        """``values`` if a topic may have them all, else ``SettingsError``."""
        LogConfig.from_properties(values, self._defaults)
        return dict(values)

    def configure(self, topic: str, values: Mapping[str, str]) -> None:
        """The keeper has new values for a topic."""
        try:
            config = LogConfig.from_properties(values, self._defaults)
        except SettingsError:
            config = self._default
        self._overrides[topic] = dict(values)
        self._configs[topic] = config
        self._storage.configure(topic, config)

    def described(self, overrides: Mapping[str, str]) -> list[Described]:
        """Every setting of a topic that has these values of its own."""
        return TOPIC.describe((Source.TOPIC, overrides), (Source.BROKER, self._chosen))
