"""What a hostile client puts into a field.

A value is chosen by the name of its field, so that requests are about topics, groups and partitions that
exist, and are then wrong in one place. The standing topics are there during the whole campaign; any request
may write, alter or delete them. The neighbour's topic has a name that nothing here can guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from struct import pack
from typing import Any, Final

from fuzz.batches import draw_batch, extreme
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.settings.dynamic import DYNAMIC
from tidelog.settings.topic import TOPIC
from tidelog.wire.schema import RECORDS, TEXT, Array, Field, Fixed, Kind, Struct, fields_of

STANDING: Final = {
    "fuzz-plain": {},
    "fuzz-compacted": {"cleanup.policy": "compact"},
    "fuzz-stamped": {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"},
}
"""Topics that exist, with their settings."""
PARTITIONS: Final = 3
"""Of each of them."""

GROUPS: Final = ("fuzz-group-1", "fuzz-group-2", "fuzz-group-3", "")
_TOPICS: Final = (*STANDING, *STANDING, *STANDING, "fuzz-new-1", "fuzz-new-2", "fuzz-new-3", OFFSETS_TOPIC)
_ODD_TEXTS: Final = (
    "",
    ".",
    "..",
    "a/b",
    "\x00",
    "世界🌊",
    "x" * 249,
    "x" * 250,
    "y" * 4_000,
    "-1",
    "fuzz plain",
)
_MEMBERS: Final = ("", "", "", "fuzz-00000000-0000-0000-0000-000000000000", "x" * 300)
_PROTOCOLS: Final = ("range", "roundrobin", "")
_SETTINGS: Final = (*TOPIC, *DYNAMIC, "x")
_SETTING_VALUES: Final = (
    *("compact", "delete", "compact,delete", "true", "false", "0", "1", "-1", "3", "14", "100", "1000000"),
    *("LogAppendTime", "CreateTime", "always", "roll", "interval", "9" * 30, "0.01", "nan", "", "x,y"),
    *("*", "0:1,0:2"),
)
_SUBSCRIPTION: Final = pack(">hih10si", 0, 1, 10, b"fuzz-plain", 0)
_BLOBS: Final = (b"", _SUBSCRIPTION, _SUBSCRIPTION[:9], b"\xff" * 20, bytes(300))

_OWN_TEXTS: Final[dict[str, Sequence[str]]] = {
    "group_id": GROUPS,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "key": GROUPS,
    "member_id": _MEMBERS,
    "group_instance_id": ("fuzz-instance-1", "fuzz-instance-2", ""),
    "protocol_type": ("consumer", "consumer", "connect", ""),
    "protocol_name": _PROTOCOLS,
    "configuration_keys": _SETTINGS,
    "value": _SETTING_VALUES,
    "states_filter": ("Stable", "Empty", "stable", ""),
    "transactional_id": ("fuzz-transaction", ""),
    "resource_name": (*_TOPICS, "1", "2", "3"),
    "client_software_name": ("fuzz", "", "x" * 300),
}
_OWN_NAMES: Final[dict[str, Sequence[str]]] = {
    "AlterableConfig": _SETTINGS,
    "CreatableTopicConfig": _SETTINGS,
    "JoinGroupRequestProtocol": _PROTOCOLS,
}
"""What `name` means in these structures; in all others it is a topic's."""

_PLACES: Final = (0, 0, 1, 2, 3, -1)
_OFFSETS: Final = (0, 0, 1, 2, 10, 1_000, -1, -2)
_EPOCHS: Final = (-1, -1, 0, 1, 2, 7)
_WAITS_MS: Final = (0, 0, 1, 10, 30)
_SIZES: Final = (0, 1, 100, 1 << 20, 1 << 30)
_OWN_NUMBERS: Final[dict[str, Sequence[int]]] = {
    **dict.fromkeys(("index", "partition", "partition_index", "partition_indexes", "partitions"), _PLACES),
    **dict.fromkeys(("fetch_offset", "offset", "committed_offset", "log_start_offset"), _OFFSETS),
    **dict.fromkeys(
        ("current_leader_epoch", "leader_epoch", "last_fetched_epoch", "producer_epoch"), _EPOCHS
    ),
    **dict.fromkeys(("committed_leader_epoch", "generation_id", "generation_id_or_member_epoch"), _EPOCHS),
    **dict.fromkeys(("max_wait_ms", "timeout_ms"), _WAITS_MS),
    **dict.fromkeys(("min_bytes", "max_bytes", "partition_max_bytes"), _SIZES),
    **dict.fromkeys(
        ("broker_ids", "broker_id", "controller_id", "leader", "isr", "replicas"), (1, 2, 3, 1, 0, -1)
    ),
    "num_partitions": (1, 1, 2, 3, -1, 0, 10_001),
    "count": (1, 3, 4, 5, 0, -1, 20_000),
    "replication_factor": (1, 2, 3, -1, 0, 4),
    "acks": (-1, -1, 1, 1, 0, 2, -2),
    "replica_id": (-1, -1, -1, -1, -2, 1, 2, 3, 4),
    "session_timeout_ms": (6_000, 6_000, 10_000, 1, 0),
    "rebalance_timeout_ms": (1, 30, 100, 0),
    "timestamp": (-1, -2, 0, 1_790_000_000_000),
    "isolation_level": (0, 1, 2),
    "key_type": (0, 0, 0, 1, 2, -1),
    "resource_type": (2, 2, 2, 4, 0, 1, 8),
    "config_operation": (0, 0, 1, 2, 3, 4, -1),
    "election_type": (0, 0, 1, 2, -1),
    "producer_id": (-1, 0, 1, 40),
}
_USUAL_NUMBERS: Final = (0, 1, -1, 2, 100)
_ODD_SHARE: Final = 0.04
_LENGTHS: Final = (0, 1, 1, 1, 2, 3)


class Speaker:
    """Draws requests from dice. Short enough to be called for every frame."""

    def __init__(self, dice: Random, version: int) -> None:
        self._dice = dice
        self._version = version

    def struct(self, cls: type[Any]) -> Any:
        values = {
            field.name: self._value(cls.__name__, field)
            for field in fields_of(cls)
            if field.presence.includes(self._version)
        }
        return cls(**values)

    def _value(self, owner: str, field: Field) -> Any:
        dice = self._dice
        tagged = field.presence.tag_in(self._version) is not None
        if tagged and dice.random() < 0.7:
            return field.default
        if field.nullable_in(self._version) and dice.random() < 0.2:
            return None
        kind = field.kind
        if isinstance(kind, Array):
            return [self._single(owner, field.name, kind.element) for _ in range(dice.choice(_LENGTHS))]
        return self._single(owner, field.name, kind)

    def _single(self, owner: str, name: str, kind: Kind) -> Any:
        if isinstance(kind, Struct):
            return self.struct(kind.type)
        if isinstance(kind, Fixed):
            return self._number(name, kind)
        if kind == RECORDS:
            return draw_batch(self._dice)
        return self._text(owner, name) if kind == TEXT else self._dice.choice(_BLOBS)

    def _text(self, owner: str, name: str) -> str:
        dice = self._dice
        if dice.random() < _ODD_SHARE:
            return dice.choice(_ODD_TEXTS)
        usual = _OWN_NAMES.get(owner, _TOPICS) if name == "name" else _OWN_TEXTS.get(name, _TOPICS)
        return dice.choice(usual)

    def _number(self, name: str, kind: Fixed) -> Any:
        dice = self._dice
        if kind.format == "?":
            return dice.random() < 0.5
        if kind.format == "16s":
            return dice.randbytes(16)
        if dice.random() < _ODD_SHARE:
            return int.from_bytes(extreme(dice, kind.size), "big", signed=kind.format.islower())
        return dice.choice(_OWN_NUMBERS.get(name, _USUAL_NUMBERS))
