"""Kafka's ``.snapshot`` files: the state of a partition's idempotent producers at an offset.

int16 version 1, uint32 CRC-32C of what follows, int32 count, then per producer: int64 id, int16 epoch, int32
last sequence, int64 last offset, int32 offset delta of the last batch, int64 timestamp, int32 coordinator
epoch, int64 first offset of its transaction. The file name holds the offset: the snapshot covers everything
below. A snapshot only saves time: if it cannot be read, the log is read instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from tidelog.core.replication.producer_state import ProducerEntry
from tidelog.core.types import Millis, Offset
from tidelog.storage.log.segment import file_name

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOTS_KEPT = 2

_VERSION = 1
_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_NO_COORDINATOR = -1
_NO_TRANSACTION = -1


class SnapshotEntry(NamedTuple):
    producer: ProducerEntry
    timestamp: Millis
    """The largest timestamp of its last batch, used for expiry."""


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [
        _ENTRY.pack(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.offset_delta,
            timestamp,
            _NO_COORDINATOR,
            _NO_TRANSACTION,
        )
        for producer, timestamp in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[SnapshotEntry] | None:
    """The entries, or None if this is not a whole snapshot."""
    body = content[_HEADER.size :]
    try:
        version, crc = _HEADER.unpack_from(content)
        (count,) = _COUNT.unpack_from(body)
    except StructError:
        return None
    if version != _VERSION or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    return [
        SnapshotEntry(ProducerEntry(producer_id, epoch, last_sequence, last_offset, delta), timestamp)
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ in _ENTRY.iter_unpack(
            body[_COUNT.size :]
        )
    ]


def snapshot_path(folder: Path, offset: Offset) -> Path:
    return folder / file_name(offset, SNAPSHOT_SUFFIX)


def snapshot_offsets(folder: Path) -> list[Offset]:
    """The offsets of the snapshots in a folder, oldest first."""
    return sorted(int(path.stem) for path in folder.glob("*" + SNAPSHOT_SUFFIX) if path.stem.isdecimal())
