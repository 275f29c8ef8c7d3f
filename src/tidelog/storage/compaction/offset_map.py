"""Which record of a key is the last one: a map from keys to offsets, within a budget of memory.

Long keys are kept as a digest. Short ones are kept as they are: that is no larger and needs no hashing, and
no short key looks like a digest, because those are longer.
"""

from __future__ import annotations

from hashlib import blake2b

from tidelog.storage.log.keyed_records import KeyedRecord

DIGEST_BYTES = 32
ENTRY_BYTES = 200
"""What a key costs, about: two objects and a slot, those included that a growing dictionary leaves empty."""


class OffsetMap:
    __slots__ = ("_capacity", "_offsets")

    def __init__(self, budget_bytes: int) -> None:
        self._capacity = max(budget_bytes // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, keys: int) -> bool:
        """Always true of an empty map: else a batch with more keys than that could never be compacted."""
        return not self._offsets or len(self._offsets) + keys <= self._capacity

    def note(self, records: list[KeyedRecord]) -> None:
        """Each is the last of its key so far."""
        offsets = self._offsets
        for offset, key, *_ in records:
            if key is not None:
                offsets[key if len(key) < DIGEST_BYTES else _digest(key)] = offset

    def last_ones(self, records: list[KeyedRecord]) -> list[KeyedRecord]:
        """Those that have a key, and none of whose key comes later."""
        get = self._offsets.get
        kept = []
        for record in records:
            offset, key, *_ = record
            if key is not None and get(key if len(key) < DIGEST_BYTES else _digest(key), -1) <= offset:
                kept.append(record)
        return kept


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
