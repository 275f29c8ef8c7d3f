"""Variable-length integers, many at a time.

Nearly all of those in records take one or two bytes, so these are read for all records at once, and further
bytes only for those that have them. One of more than five bytes is *strange*: no length has as many, and the
few timestamps that do are left to a slower reader.

The caller has `PADDING` bytes behind the data, so that no look ahead leaves it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

PADDING = 16
_BYTES_MAX = 5

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Varints(NamedTuple):
    values: Ints
    behind: Ints
    """The positions behind them."""
    strange: Flags | None
    """Those that were not read; None: all were."""


def read_varints(data: Bytes, at: Ints) -> Varints:
    """The zigzag integers at these positions."""
    first = data[at]
    longer = first > 0x7F
    if not longer.any():
        return Varints(_unzigzag(first.astype(np.int64)), at + 1, None)
    second = data[at + 1].astype(np.int64)
    raw = np.where(longer, (first & 0x7F) | (second & 0x7F) << 7, first).astype(np.int64, copy=False)
    behind = at + 1 + longer
    strange = None
    rest = np.flatnonzero(longer & (second > 0x7F))
    if rest.size:
        strange = _read_rest(data, raw, behind, rest)
    return Varints(_unzigzag(raw), behind, strange)


def _read_rest(data: Bytes, raw: Ints, behind: Ints, rest: npt.NDArray[Any]) -> Flags | None:
    """The third byte and those that follow it, of the few that have one."""
    for count in range(2, _BYTES_MAX):
        byte = data[behind[rest]].astype(np.int64)
        raw[rest] |= (byte & 0x7F) << (7 * count)
        behind[rest] += 1
        rest = rest[byte > 0x7F]
        if not rest.size:
            return None
    strange = np.zeros(len(raw), np.bool_)
    strange[rest] = True
    return strange


def _unzigzag(raw: Ints) -> Ints:
    return (raw >> 1) ^ -(raw & 1)
