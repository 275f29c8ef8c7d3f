"""Records of a topic as lines: for people, as JSON, or their values alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from tidelog.cli.show.dump import time_text, value_text
from tidelog.kafka_client.reading import ReadRecord
from tidelog.storage.dump.rows import Row, bytes_field

_NEWLINE = b"\n"


def printer(*, as_json: bool, values: bool) -> Callable[[ReadRecord], None]:
    """Prints a record on stdout, which the caller flushes."""
    if values:
        return lambda record: _write((record.value or b"") + _NEWLINE)
    line = _json if as_json else _text
    return lambda record: _write(line(record).encode() + _NEWLINE)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _row(record: ReadRecord) -> Row:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "leader_epoch": record.leader_epoch,
        **bytes_field("key", record.key),
        **bytes_field("value", record.value),
    }


def _json(record: ReadRecord) -> str:
    return json.dumps(_row(record), ensure_ascii=False)


def _text(record: ReadRecord) -> str:
    row = _row(record)
    where = f"{record.topic}-{record.partition}  offset {record.offset}  {time_text(record.timestamp_ms)}"
    key = "" if record.key is None else f"  key {value_text(row, 'key')}"
    return f"{where}{key}  value {value_text(row, 'value')}"
