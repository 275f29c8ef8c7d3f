"""The columns of a segment file's records: their names, types and meaning.

Rules of the file:

* A row is a record, or a *problem*: a place of the file that could not be read. A problem has words, the
  file and the position; what is not known is null, above all the offset.
* What Kafka writes as -1 (no producer, no epoch, no timestamp) is null.
* `key_text`, `value_id`, `value_bytes` and `value_crc32` are what the evidence's tables say of a key and a
  value, spelled as the journals of clients spell them, so that all of them join.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


@dataclass(slots=True, frozen=True)
class Column:
    """`spark` is the type as Spark spells it."""

    name: str
    type: Any
    spark: str
    doc: str


COLUMNS: Final = (
    Column("broker", pa.int32(), "int", "whose replica; null: the folder does not say"),
    Column("topic", pa.string(), "string", "of what"),
    Column("partition", pa.int32(), "int", "of what"),
    Column("offset", pa.int64(), "bigint", "the record's place in the log"),
    Column("leader_epoch", pa.int32(), "int", "the epoch of its batch"),
    Column(
        "timestamp_ms", pa.int64(), "bigint", "the producer's clock, or the broker's if the topic says so"
    ),
    Column("producer_id", pa.int64(), "bigint", "of an idempotent or transactional producer"),
    Column("producer_epoch", pa.int32(), "int", "which life of that producer"),
    Column("producer_sequence", pa.int32(), "int", "that producer's own count"),
    Column("transactional", pa.bool_(), "boolean", "whether it belongs to a transaction"),
    Column("control", pa.bool_(), "boolean", "whether it belongs to the protocol instead of a producer"),
    Column("key", pa.binary(), "binary", "the record's key; null: none"),
    Column("value", pa.binary(), "binary", "the record's value; null: none, a tombstone"),
    Column("headers", HEADERS_TYPE, "array<struct<key:string,value:binary>>", "the record's headers"),
    Column("key_text", pa.string(), "string", "the key as evidence has it"),
    Column("value_id", pa.string(), "string", "the value's id as evidence has it: up to the first space"),
    Column("value_bytes", pa.int32(), "int", "the size of the value"),
    Column("value_crc32", pa.int64(), "bigint", "the CRC-32 of the value"),
    Column("compression", pa.string(), "string", "none, gzip, snappy, lz4 or zstd"),
    Column("batch_base_offset", pa.int64(), "bigint", "the first offset of its batch"),
    Column("position", pa.int64(), "bigint", "where its batch begins in the file"),
    Column("file", pa.string(), "string", "the segment file"),
    Column("crc_ok", pa.bool_(), "boolean", "whether the batch is what was written; null: not known"),
    Column("problem", pa.string(), "string", "why this place of the file cannot be read; null: a record"),
)
BY_NAME: Final = {column.name: column for column in COLUMNS}
NAMES: Final = tuple(BY_NAME)
SPARK_SCHEMA: Final = ", ".join(f"{column.name} {column.spark}" for column in COLUMNS)


def arrow_schema(names: Iterable[str] = NAMES) -> Any:
    """These columns in this order. A name that is none is a `KeyError`."""
    return pa.schema([pa.field(name, BY_NAME[name].type) for name in names])
