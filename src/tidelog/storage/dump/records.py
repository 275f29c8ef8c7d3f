"""The records of one batch."""

from __future__ import annotations

import base64
from pathlib import Path
from struct import Struct
from struct import error as StructError

from tidelog.storage.dump.rows import Row, Rows, finding
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.record_reader import Record, read_records

_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "kraft version",
    6: "kraft voters",
}


def record_rows(path: Path, position: int, data: bytes) -> Rows:
    """`data` is the batch at `position`, its CRC verified."""
    try:
        batch = RecordBatch.parse(data)
        for record in read_records(batch):
            yield _row(path, record, control=batch.is_control)
    except CorruptBatch as error:
        yield finding(path, str(error), position)


def _row(path: Path, record: Record, *, control: bool) -> Row:
    row: Row = {"kind": "record", "file": str(path), "offset": record.offset, "timestamp": record.timestamp}
    if control:
        row["control"] = _control_type(record.key)
        return row
    row |= _bytes("key", record.key) | _bytes("value", record.value)
    row["headers"] = [{"name": name, **_bytes("value", value)} for name, value in record.headers]
    return row


def _bytes(name: str, value: bytes | None) -> Row:
    """As text where it is text, else in base64 under another name, so that nothing is ever garbled."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _control_type(key: bytes | None) -> str:
    try:
        _, number = _CONTROL_KEY.unpack_from(key or b"")
    except StructError:
        return "unknown"
    return _CONTROL_TYPES.get(number, f"type {number}")
