"""Keys, values and header parts as places in a buffer, and how they become Arrow's binary columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.segments.varints import Flags, Ints


@dataclass(slots=True)
class Places:
    """From `start` to `behind`, exclusive. One that is null is also empty."""

    start: Ints
    behind: Ints
    null: Flags

    def ordered(self, order: Ints) -> Self:
        return type(self)(self.start[order], self.behind[order], self.null[order])

    def cut(self, size_max: int) -> Self:
        """The first bytes of each."""
        return type(self)(self.start, np.minimum(self.behind, self.start + size_max), self.null)

    @property
    def sizes(self) -> Ints:
        return self.behind - self.start

    @classmethod
    def joined(cls, parts: Sequence[Places]) -> Self:
        if not parts:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
        return cls(
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.behind for part in parts]),
            np.concatenate([part.null for part in parts]),
        )


def as_binary(data: bytes, places: Places) -> Any:
    """The bytes at these places as an Arrow array, copied by Arrow.

    Taken as one column, the places and the gaps between them are neighbours: every other entry is wanted.
    """
    count = len(places.start)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0 : 2 * count : 2] = places.start
    bounds[1 : 2 * count : 2] = places.behind
    bounds[2 * count] = bounds[2 * count - 1]
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds.data), pa.py_buffer(data)]
    )
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return both.take(pa.array(wanted, mask=places.null if places.null.any() else None))
