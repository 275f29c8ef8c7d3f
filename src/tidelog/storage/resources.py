"""A bound on open files: sealed segments are opened when read, and the least recently read are closed.

The segment that a log writes to stays open; it is not counted here. What is counted are segments: an open
one has up to three files, because a mapped index holds its own.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

OPEN_SEGMENTS_MAX = 256


class Closable(Protocol):
    def close_file(self) -> None: ...


class OpenFiles:
    __slots__ = ("_limit", "_recent")

    def __init__(self, limit: int = OPEN_SEGMENTS_MAX) -> None:
        self._limit = limit
        self._recent: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def used(self, segment: Closable) -> None:
        recent = self._recent
        recent[segment] = None
        recent.move_to_end(segment)
        while len(recent) > self._limit:
            oldest, _ = recent.popitem(last=False)
            oldest.close_file()

    def forget(self, segment: Closable) -> None:
        self._recent.pop(segment, None)
