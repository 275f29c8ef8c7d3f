"""Batches of few bytes that inflate to very many records, or to very large ones."""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from tidelog.wire.batch import CRC_START, HEADER, LENGTH_END, MAGIC, RecordBatch
from tidelog.wire.compression import Compression, compress
from tidelog.wire.primitives import encode_varlong

_CRC = Struct(">I")


def bomb(
    count: int,
    *,
    compression: Compression = Compression.ZSTD,
    key: bytes | None = b"k",
    value_bytes: int = 0,
    claimed: int | None = None,
    timestamp: int = 1_000,
    max_timestamp: int | None = None,
) -> RecordBatch:
    """So many equal records, all of the first offset and time; ``claimed`` and ``max_timestamp`` are lies of
    the header."""
    record = b"\0\0\0" + _sized(key) + _sized(bytes(value_bytes)) + b"\0"
    body = compress((encode_varlong(len(record)) + record) * count, compression)
    said = count if claimed is None else claimed
    latest = timestamp if max_timestamp is None else max_timestamp
    size = HEADER.size + len(body) - LENGTH_END
    header = HEADER.pack(0, size, -1, MAGIC, 0, compression, said - 1, timestamp, latest, -1, -1, -1, said)
    data = bytearray(header + body)
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_START:]))
    return RecordBatch.parse(data)


def _sized(data: bytes | None) -> bytes:
    return encode_varlong(-1) if data is None else encode_varlong(len(data)) + data
