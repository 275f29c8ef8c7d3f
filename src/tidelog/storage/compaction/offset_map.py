"""The last offset of every key, within a memory budget.

Long keys are stored as a digest. Short keys are stored as they are: that is no larger and needs no hashing. A
short key never equals a digest, because digests are longer.
"""

from __future__ import annotations

from hashlib import blake2b

from tidelog.storage.log.keyed_records import KeyedRecord

DIGEST_BYTES = 32
ENTRY_BYTES = 200
"""Approximate memory of a key: two objects and a slot, including the empty slots of a growing dictionary."""


class OffsetMap:
    __slots__ = ("_capacity", "_offsets")

    def __init__(self, budget_bytes: int) -> None:
        self._capacity = max(budget_bytes // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, keys: int) -> bool:
        """Always true of an empty map: otherwise a batch with more keys than fit could never be compacted."""
        return not self._offsets or len(self._offsets) + keys <= self._capacity

    def note(self, records: list[KeyedRecord]) -> None:
        """Record each as the last of its key so far."""
        offsets = self._offsets
        for offset, key, *_ in records:
            if key is not None:
                offsets[key if len(key) < DIGEST_BYTES else _digest(key)] = offset

    def last_ones(self, records: list[KeyedRecord]) -> list[KeyedRecord]:
        """The records that have a key and are the last of that key."""
        get = self._offsets.get
        kept = []
        for record in records:
            offset, key, *_ = record
            if key is not None and get(key if len(key) < DIGEST_BYTES else _digest(key), -1) <= offset:
                kept.append(record)
        return kept


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
