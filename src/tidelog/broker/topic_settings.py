"""The settings of each topic: its own values over this broker's defaults over the table's.

A value is checked when it is set. If another tool wrote an invalid value to the keeper, the topic keeps its
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.settings.table import ConfigSource, Described, SettingsError
from tidelog.settings.topic import TOPIC, LogConfig
from tidelog.storage.file_storage import FileStorage

ANY_DIFFERENCE: Final = LogConfig().message_timestamp_difference_max_ms
GIVEN_MAX: Final = 1_000
"""Maximum settings of one topic in a request; some thirty exist."""


def require_few(settings: Sequence[object]) -> None:
    """Raise ``SettingsError`` for too many settings, before any is parsed."""
    if len(settings) > GIVEN_MAX:
        raise SettingsError(f"{len(settings)} settings for a topic; up to {GIVEN_MAX} are taken")


def _bytes_as_sent(config: LogConfig) -> int:
    dated = config.append_time or config.message_timestamp_difference_max_ms != ANY_DIFFERENCE
    return 0 if dated or config.compacts else config.max_message_bytes


class TopicSettings:
    def __init__(self, defaults: Mapping[str, str], storage: FileStorage) -> None:
        self._defaults = dict(defaults)
        self._storage = storage
        self._default = LogConfig.from_properties({}, self._defaults)
        self._chosen = self._default.chosen()
        self._default_bytes = _bytes_as_sent(self._default)
        self._bytes_as_sent: dict[str, int] = {}
        self._configs: dict[str, LogConfig] = {}
        self._overrides: dict[str, dict[str, str]] = {}

    def of(self, topic: str) -> LogConfig:
        return self._configs.get(topic, self._default)

    def bytes_as_sent(self, topic: str) -> int:
        """How large a batch may be that is stored as it was sent. 0 if more must be looked at first."""
        return self._bytes_as_sent.get(topic, self._default_bytes)

    def overrides(self, topic: str) -> Mapping[str, str]:
        return self._overrides.get(topic, {})

    def checked(self, values: Mapping[str, str]) -> dict[str, str]:
        """``values`` if all are valid, else ``SettingsError``."""
        LogConfig.from_properties(values, self._defaults)
        return dict(values)

    def configure(self, topic: str, values: Mapping[str, str]) -> None:
        """Apply new values of a topic from the keeper; none if the topic has no settings, or is deleted."""
        try:
            config = LogConfig.from_properties(values, self._defaults)
        except SettingsError:
            config = self._default
        if values:
            self._overrides[topic] = dict(values)
            self._configs[topic] = config
            self._bytes_as_sent[topic] = _bytes_as_sent(config)
        else:
            self._overrides.pop(topic, None)
            self._configs.pop(topic, None)
            self._bytes_as_sent.pop(topic, None)
        self._storage.configure(topic, config)

    def described(self, overrides: Mapping[str, str]) -> list[Described]:
        """All settings of a topic with these own values."""
        return TOPIC.describe((ConfigSource.TOPIC, overrides), (ConfigSource.BROKER, self._chosen))
