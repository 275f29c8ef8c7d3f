"""The records of ``__consumer_offsets``: Kafka's own formats, so that its tools can read them.

A key begins with a version that tells its kind: 0 and 1 a committed offset, 2 a group. A value begins with
the version of its layout. This module writes version 3 of both values, as Kafka 2.7 does, and reads all older
versions. No value (a tombstone) means deleted.

Unknown kinds and versions are skipped, as in Kafka: a newer broker may have written them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from tidelog.core.types import Millis, TopicPartition
from tidelog.groups.messages import Position
from tidelog.wire.codec import decode, encode
from tidelog.wire.errors import ProtocolError
from tidelog.wire.schema import Bytes, Int32, Int64, String, field, struct

TOPIC = "__consumer_offsets"
TEXT_BYTES_MAX = (1 << 15) - 1
"""Strings in these records have a two-byte length."""

_VERSION = Struct(">h")
_POSITION_KEYS = (0, 1)
_GROUP_KEY = 2
_POSITION_VALUE_WRITTEN = 3
_GROUP_VALUE_WRITTEN = 3
_VALUE_VERSIONS = range(4)

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; no value is a tombstone."""

# ---------------------------------------------------------------- layouts


@struct
class _PositionKey:
    group: String
    topic: String
    partition: Int32


@struct
class _PositionValue:
    offset: Int64
    leader_epoch: Int32 = field(-1, since=3)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(-1, since=1, until=1)


@struct
class _GroupKey:
    group: String


@struct
class _MemberValue:
    member_id: String
    group_instance_id: String | None = field(None, since=3)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(-1, since=1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@struct
class _GroupValue:
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(-1, since=2)
    members: list[_MemberValue]


# ---------------------------------------------------------------- contents


@dataclass(slots=True, frozen=True)
class CommittedPosition:
    """A committed offset and its commit time. Older clients choose ``expires_at``; -1: not set."""

    position: Position
    committed_at: Millis
    expires_at: Millis = -1


@dataclass(slots=True, frozen=True)
class StoredMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Millis
    session_timeout_ms: Millis
    subscription: bytes
    assignment: bytes


@dataclass(slots=True, frozen=True)
class StoredGroup:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since: Millis
    """When the group entered its state, -1 if the record does not hold it."""
    members: tuple[StoredMember, ...]


@dataclass(slots=True, frozen=True)
class PositionRecord:
    group: str
    tp: TopicPartition
    committed: CommittedPosition | None


@dataclass(slots=True, frozen=True)
class GroupRecord:
    group: str
    stored: StoredGroup | None


# ---------------------------------------------------------------- writing


def position_entry(group: str, tp: TopicPartition, committed: CommittedPosition | None) -> Entry:
    key = _versioned(1, _PositionKey(group=group, topic=tp.topic, partition=tp.partition))
    if committed is None:
        return key, None
    position = committed.position
    value = _PositionValue(
        offset=position.offset,
        leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        commit_timestamp=committed.committed_at,
    )
    return key, _versioned(_POSITION_VALUE_WRITTEN, value)


def group_entry(group: str, stored: StoredGroup | None) -> Entry:
    key = _versioned(_GROUP_KEY, _GroupKey(group=group))
    if stored is None:
        return key, None
    value = _GroupValue(
        protocol_type=stored.protocol_type,
        generation=stored.generation,
        protocol=stored.protocol,
        leader=stored.leader,
        current_state_timestamp=stored.since,
        members=[
            _MemberValue(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in stored.members
        ],
    )
    return key, _versioned(_GROUP_VALUE_WRITTEN, value)


def writable(texts: Iterable[str | None]) -> bool:
    """Whether each of these strings fits a record: requests of newer versions can carry longer ones."""
    return all(text is None or len(text.encode()) <= TEXT_BYTES_MAX for text in texts)


def _versioned(version: int, message: Any) -> bytes:
    return _VERSION.pack(version) + encode(message, version, flexible=False)


# ---------------------------------------------------------------- reading


def read_entry(key: bytes | None, value: bytes | None) -> PositionRecord | GroupRecord | None:
    """Decode a record; None if its kind or version is unknown. ``ProtocolError`` if it is malformed."""
    if key is None:
        return None
    version = _version_of(key)
    if version in _POSITION_KEYS:
        name = decode(_PositionKey, version, False, key[2:])
        tp = TopicPartition(name.topic, name.partition)
        if value is None:
            return PositionRecord(name.group, tp, None)
        read = _read_value(_PositionValue, value)
        return None if read is None else PositionRecord(name.group, tp, _committed(read))
    if version == _GROUP_KEY:
        group = decode(_GroupKey, version, False, key[2:]).group
        if value is None:
            return GroupRecord(group, None)
        read = _read_value(_GroupValue, value)
        return None if read is None else GroupRecord(group, _stored(read))
    return None


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes have no room for a version")
    return int(_VERSION.unpack_from(data)[0])


def _read_value(layout: type[Any], value: bytes) -> Any:
    version = _version_of(value)
    return decode(layout, version, False, value[2:]) if version in _VALUE_VERSIONS else None


def _committed(value: Any) -> CommittedPosition:
    position = Position(value.offset, value.leader_epoch, value.metadata)
    return CommittedPosition(position, value.commit_timestamp, value.expire_timestamp)


def _stored(value: Any) -> StoredGroup:
    members = tuple(
        StoredMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            # Before version 1 a member had one timeout for both.
            member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
            member.session_timeout,
            member.subscription,
            member.assignment,
        )
        for member in value.members
    )
    return StoredGroup(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        members,
    )


# ---------------------------------------------------------------- partition of a group


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that holds a group: Java's hash of its name, as Kafka does."""
    hashed = 0
    units = group.encode("utf-16-be")
    for first in range(0, len(units), 2):
        hashed = (31 * hashed + (units[first] << 8 | units[first + 1])) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    # The smallest integer has no absolute value in Java; Kafka uses 0 for it.
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
