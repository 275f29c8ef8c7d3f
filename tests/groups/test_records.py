"""The records of `__consumer_offsets` are Kafka's, byte for byte; whatever else is there does no harm."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.groups.messages import Position
from tidelog.groups.records import (
    CommittedPosition,
    GroupRecord,
    PositionRecord,
    StoredGroup,
    StoredMember,
    group_entry,
    partition_of,
    position_entry,
    read_entry,
)
from tidelog.wire.errors import ProtocolError

TP = TopicPartition("topic", 5)


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def test_a_position_by_hand() -> None:
    """Key version 1, value version 3, as Kafka 2.7 writes them."""
    key, value = position_entry("group", TP, CommittedPosition(Position(7, LeaderEpoch(3), "noted"), 1_600))
    assert key == struct.pack(">h", 1) + text("group") + text("topic") + struct.pack(">i", 5)
    assert value == struct.pack(">hqi", 3, 7, 3) + text("noted") + struct.pack(">q", 1_600)


def test_a_group_by_hand() -> None:
    """Key version 2, value version 3."""
    member = StoredMember("m-1", "static", "client", "/1.2.3.4", 60_000, 10_000, b"sub", b"share")
    key, value = group_entry("group", StoredGroup("consumer", 9, "range", "m-1", 1_600, (member,)))
    assert key == struct.pack(">h", 2) + text("group")
    assert value == (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 9)
        + text("range")
        + text("m-1")
        + struct.pack(">qi", 1_600, 1)
        + text("m-1")
        + text("static")
        + text("client")
        + text("/1.2.3.4")
        + struct.pack(">ii", 60_000, 10_000)
        + blob(b"sub")
        + blob(b"share")
    )


@pytest.mark.parametrize(
    ("value", "epoch", "expires_at"),
    [
        (struct.pack(">hq", 0, 7) + text("m") + struct.pack(">q", 5), -1, -1),
        (struct.pack(">hq", 1, 7) + text("m") + struct.pack(">qq", 5, 9), -1, 9),
        (struct.pack(">hq", 2, 7) + text("m") + struct.pack(">q", 5), -1, -1),
        (struct.pack(">hqi", 3, 7, 4) + text("m") + struct.pack(">q", 5), 4, -1),
    ],
)
def test_positions_of_older_versions(value: bytes, epoch: int, expires_at: int) -> None:
    """Every layout since 0.8.2 is understood."""
    key, _ = position_entry("g", TP, None)
    expected = CommittedPosition(Position(7, LeaderEpoch(epoch), "m"), 5, expires_at)
    assert read_entry(key, value) == PositionRecord("g", TP, expected)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_groups_of_older_versions(version: int) -> None:
    """Before version 1 a member had one timeout, before 2 a group no time, before 3 a member no instance
    id."""
    key, _ = group_entry("g", None)
    value = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range") + text("m")
    value += struct.pack(">q", 99) if version >= 2 else b""
    value += struct.pack(">i", 1) + text("m")
    value += text(None) if version >= 3 else b""
    value += text("c") + text("/h")
    value += struct.pack(">i", 60) if version >= 1 else b""
    value += struct.pack(">i", 30) + blob(b"s") + blob(b"a")
    record = read_entry(key, value)
    assert isinstance(record, GroupRecord)
    assert record.stored is not None
    assert record.stored.since == (99 if version >= 2 else -1)
    assert record.stored.members[0] == StoredMember(
        "m", None, "c", "/h", 60 if version >= 1 else 30, 30, b"s", b"a"
    )


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
millis = st.integers(-1, 1 << 62)
members = st.builds(
    StoredMember,
    names,
    st.none() | names,
    names,
    names,
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.binary(max_size=20),
    st.binary(max_size=20),
)
groups = st.builds(
    StoredGroup,
    names,
    st.integers(0, 1 << 30),
    st.none() | names,
    st.none() | names,
    millis,
    st.lists(members, max_size=3).map(tuple),
)
positions = st.builds(
    CommittedPosition,
    st.builds(Position, st.integers(-1, 1 << 62), st.integers(-1, 1 << 30), names),
    millis,
)


@given(names, st.none() | groups, names, st.integers(0, 1000), st.none() | positions)
def test_what_is_written_is_read(
    group: str, stored: StoredGroup | None, topic: str, partition: int, committed: CommittedPosition | None
) -> None:
    """Any group and any position survive the way to the log and back; a tombstone is one."""
    assert read_entry(*group_entry(group, stored)) == GroupRecord(group, stored)
    tp = TopicPartition(topic, partition)
    assert read_entry(*position_entry(group, tp, committed)) == PositionRecord(group, tp, committed)


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_other_bytes(key: bytes | None, value: bytes | None) -> None:
    """Bytes that are no record of ours are passed over or refused, never misread into an exception."""
    with contextlib.suppress(ProtocolError):
        read_entry(key, value)


@pytest.mark.parametrize("kind", [3, 4, 99, -1])
def test_records_of_a_later_kafka_are_passed_over(kind: int) -> None:
    """New kinds of keys and new versions of values are for those who know them."""
    assert read_entry(struct.pack(">h", kind) + b"whatever", b"whatever") is None
    key, _ = group_entry("g", None)
    assert read_entry(key, struct.pack(">h", 4) + b"whatever") is None


@pytest.mark.parametrize(
    ("group", "hashed"), [("", 0), ("g", 103), ("hello", 99_162_322), ("polygenelubricants", 0)]
)
def test_the_partition_of_a_group(group: str, hashed: int) -> None:
    """Java's hash; the one text whose hash has no absolute value goes to partition 0."""
    assert partition_of(group, 1 << 31) == hashed
    assert partition_of(group, 50) == hashed % 50


def test_characters_beyond_the_basic_plane_count_twice() -> None:
    """Java's text is UTF-16."""
    assert partition_of("\U0001f600", 1 << 31) == abs(31 * 0xD83D + 0xDE00)
