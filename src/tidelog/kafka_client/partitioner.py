"""The partition of a key, as Kafka's Java client chooses it: the same key goes to the same partition."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with Kafka's seed."""
    size = len(data)
    mixed = _SEED ^ size
    whole = size & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        mixed = (mixed * _M & _MASK) ^ word
    if whole < size:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    mixed = (mixed ^ mixed >> 13) * _M & _MASK
    return mixed ^ mixed >> 15
