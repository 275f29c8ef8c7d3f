"""The settings of brokers that are changed while they run (KIP-226), and are in no file.

They are kept in the keeper, for one broker or for every broker. All other settings are in the broker's file,
which it reads when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.settings.broker import BROKER
from tidelog.settings.kinds import LONG_MAX, TEXT_LENGTH_MAX, int64
from tidelog.settings.table import SettingsError, Values, row


class DynamicSettings(Values, noun="setting of a running broker"):
    leader_replication_throttled_rate: int = row(
        int64(0),
        LONG_MAX,
        "Bytes per second that the broker sends, as a leader, of partitions that a topic throttles "
        "(`leader.replication.throttled.replicas`). Replicas that are in sync do not wait.",
    )
    follower_replication_throttled_rate: int = row(
        int64(0),
        LONG_MAX,
        "Bytes per second that the broker fetches, as a follower, of partitions that a topic throttles "
        "(`follower.replication.throttled.replicas`). Partitions that are in sync do not wait.",
    )

    @classmethod
    def from_keeper(cls, *layers: Mapping[str, str]) -> DynamicSettings:
        """The first layer that has a setting wins. What another tool wrote past the checks counts as not
        set."""
        values = {}
        for layer in reversed(layers):
            for name, text in layer.items():
                try:
                    values[DYNAMIC[name].attribute] = DYNAMIC.parse(name, text)
                except (KeyError, SettingsError):
                    continue
        return cls(**values)


DYNAMIC: Final = DynamicSettings.table


def check(values: Mapping[str, str]) -> None:
    """Raise ``SettingsError`` for the first that cannot be set."""
    for name, text in values.items():
        if name in DYNAMIC:
            DYNAMIC.parse(name, text)
        elif name in BROKER or name in BROKER.aliases:
            raise SettingsError(
                f"{name} cannot be changed at run time: set it in the broker's file and restart"
            )
        else:
            raise SettingsError(DYNAMIC.unknown(name[:TEXT_LENGTH_MAX]))
