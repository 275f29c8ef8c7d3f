"""Variable-length integers and tagged fields.

Fields of fixed width are read and written by `struct`, in runs that the codec merges. Readers take a buffer
and a position and return the value and the position behind it. A read past the end raises `IndexError`, which
the decoders turn into `ProtocolError`.
"""

from __future__ import annotations

from typing import TypeAlias

from tidelog.wire.errors import ProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

TAGS_MAX = 64
"""Maximum tagged fields of one struct. No message of Kafka has a quarter of that. Without a bound a frame
that holds only tagged fields would keep its reader busy for a minute."""

_VARLONG_SHIFT_MAX = 63


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 32-bit integer, seven bits a byte, least significant first (KIP-482).

    Unrolled for up to three bytes, which cover the length of nearly every record set.
    """
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    second = buffer[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    third = buffer[position + 2]
    value = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14
    if third < 0x80:
        return value, position + 3
    fourth = buffer[position + 3]
    value |= (fourth & 0x7F) << 21
    if fourth < 0x80:
        return value, position + 4
    fifth = buffer[position + 4]
    if fifth > 0x0F:
        raise ProtocolError("a variable-length integer does not fit 32 bits")
    return value | fifth << 28, position + 5


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 64-bit integer in zigzag form: small absolute values are short. Records use it."""
    value = buffer[position]
    position += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position
    value &= 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _VARLONG_SHIFT_MAX:
            raise ProtocolError("a variable-length integer is longer than ten bytes")
    if value > 0xFFFF_FFFF_FFFF_FFFF:
        raise ProtocolError("a variable-length integer does not fit 64 bits")
    return (value >> 1) ^ -(value & 1), position


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80))
    value >>= 14
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varlong(value: int) -> bytes:
    return encode_uvarint((value << 1) ^ (value >> 63))


def skip_tagged_fields(buffer: Buffer, position: int, limit: int) -> int:
    """The position behind a section of unknown tagged fields.

    Newer peers add tagged fields without a new version, so unknown fields are skipped and never refused.
    """
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        raise ProtocolError(f"{count} tagged fields; allowed are 0 to {TAGS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > limit:
            raise ProtocolError("a tagged field reaches beyond the end of the frame")
    return position
