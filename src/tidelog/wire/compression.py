"""The compression codecs of record batches.

A broker passes compressed batches on as they are; only readers of records decompress. Decompression is
bounded: a few hostile bytes can inflate to gigabytes, so the caller sets a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any

import cramjam

from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import Buffer

INFLATED_MAX = 128 << 20

# snappy-java's stream format, which the Java client writes: a magic, two versions, blocks with their sizes.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_BLOCK_SIZE = Struct(">i")

_FIRST_GUESS_MIN = 64 << 10
_GROWTH = 8
_OVERFLOW = "failed to write whole buffer"


class TooMuchInflated(ProtocolError):
    """The data inflates to more bytes than the caller's limit."""


class Compression(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(data: Buffer, compression: Compression) -> bytes:
    if compression is Compression.NONE:
        return bytes(data)
    return bytes(_COMPRESSORS[compression](data))


def decompress(data: Buffer, compression: Compression, *, limit: int = INFLATED_MAX) -> bytes:
    """Raises `ProtocolError` if `data` is not the codec's output, `TooMuchInflated` beyond `limit` bytes."""
    if compression is Compression.NONE:
        return bytes(data)
    try:
        if compression is Compression.SNAPPY:
            return _decompress_snappy(bytes(data), limit)
        return _inflate(data, _INFLATERS[compression], limit)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"{compression.name.lower()} cannot read this: {error}") from None


_COMPRESSORS: dict[Compression, Callable[[Buffer], Any]] = {
    Compression.GZIP: cramjam.gzip.compress,
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: cramjam.lz4.compress,
    Compression.ZSTD: cramjam.zstd.compress,
}
_INFLATERS: dict[Compression, Callable[[Buffer, bytearray], int]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _inflate(data: Buffer, inflate_into: Callable[[Buffer, bytearray], int], limit: int) -> bytes:
    """Inflates into a growing buffer: the frames do not state their size."""
    capacity = max(_FIRST_GUESS_MIN, len(data) * _GROWTH)
    while True:
        capacity = min(capacity, limit)
        output = bytearray(capacity)
        try:
            size = inflate_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OVERFLOW:
                raise
        else:
            return bytes(memoryview(output)[:size])
        if capacity == limit:
            raise TooMuchInflated(f"a batch inflates to more than {limit} bytes")
        capacity *= _GROWTH


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _inflate_snappy_block(data, limit)
    blocks = []
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        try:
            (size,) = _BLOCK_SIZE.unpack_from(data, position)
        except StructError:
            raise ProtocolError("a snappy block's size is cut off") from None
        position += 4
        if not 0 <= size <= len(data) - position:
            raise ProtocolError("a snappy block reaches beyond its batch")
        block = _inflate_snappy_block(data[position : position + size], limit)
        limit -= len(block)
        blocks.append(block)
        position += size
    return b"".join(blocks)


def _inflate_snappy_block(block: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise TooMuchInflated("a batch inflates to more than its reader allows")
    return bytes(cramjam.snappy.decompress_raw(block))
