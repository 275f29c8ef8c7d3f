"""The settings of this broker that are changed while it runs: its own, and those of every broker.

A value is checked when it is set. What another tool wrote past the checks counts as not set.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.settings.dynamic import DYNAMIC, DynamicSettings
from tidelog.settings.table import ConfigSource, Described


class RunningSettings:
    def __init__(self) -> None:
        self.own: Mapping[str, str] = {}
        self.of_every_broker: Mapping[str, str] = {}
        self.values = DynamicSettings()

    def configure(self, own: Mapping[str, str], of_every_broker: Mapping[str, str]) -> None:
        self.own, self.of_every_broker = own, of_every_broker
        self.values = DynamicSettings.from_keeper(own, of_every_broker)

    def described(self) -> list[Described]:
        """All of this broker."""
        layers = (
            (ConfigSource.DYNAMIC_BROKER, self.own),
            (ConfigSource.DYNAMIC_DEFAULT, self.of_every_broker),
        )
        return DYNAMIC.describe(*layers)

    def described_for_every_broker(self) -> list[Described]:
        """Those that are set for every broker."""
        entries = DYNAMIC.describe((ConfigSource.DYNAMIC_DEFAULT, self.of_every_broker))
        return [entry for entry in entries if entry.source is ConfigSource.DYNAMIC_DEFAULT]
