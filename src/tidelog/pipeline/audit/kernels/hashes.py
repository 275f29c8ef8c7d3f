"""Sums of stretches, by which two logs are seen to be equal without laying them side by side.

A *stretch* is 4096 offsets of a partition. Its sum is how many records there are and the sum of a 64-bit hash
of each with its offset. Consumers that read what the log holds and producers with true acknowledgements have
equal sums; only where sums differ is the stretch looked at record by record.

Different sums are a suspicion, never a finding: a consumer that had not read everything has different sums
and nothing is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

STRETCH: Final = 4096
OFFSET_BITS: Final = 40
"""A stretch of a partition is one number: that of the partition, shifted by this many bits, and its own."""

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_U = np.uint64
_GOLDEN = _U(0x9E3779B97F4A7C15)
_FIRST = _U(0xBF58476D1CE4E5B9)
_SECOND = _U(0x94D049BB133111EB)


def mix(x: Words) -> Words:
    """Every bit of the input changes half of the bits of the result (the finaliser of splitmix64)."""
    x = (x ^ (x >> _U(30))) * _FIRST
    x = (x ^ (x >> _U(27))) * _SECOND
    return x ^ (x >> _U(31))


def combined(*parts: Words | Ints) -> Words:
    """A hash of several numbers, in their order."""
    found = mix(parts[0].astype(_U) + _GOLDEN)
    for part in parts[1:]:
        found = mix(found * _GOLDEN + part.astype(_U))
    return found


def text_hashes(texts: Any) -> Words:
    """64 bits of each text of an Arrow array, eight bytes at a time for all of them; 0: null."""
    texts = whole(texts)
    if isinstance(texts, pa.DictionaryArray):
        codes = ints(texts.indices)
        known = np.concatenate((text_hashes(texts.dictionary), np.zeros(1, _U)))
        return known[codes]
    count = len(texts)
    if texts.null_count == count:
        return np.zeros(count, _U)
    _, bounds, content = texts.buffers()
    ends = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + count + 1].astype(np.int64)
    sizes = np.diff(ends)
    letters = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    letters = np.concatenate((letters[ends[0] : ends[-1]], np.zeros(16, np.uint8)))
    starts = ends[:-1] - ends[0]
    words = np.lib.stride_tricks.sliding_window_view(letters, 8)
    found = mix(sizes.astype(_U) + _GOLDEN)
    for at in range(0, int(sizes.max()), 8):
        rows = np.flatnonzero(sizes > at)
        word = np.ascontiguousarray(words[starts[rows] + at]).view("<u8").reshape(-1).astype(_U)
        left = sizes[rows] - at
        short = left < 8
        if short.any():
            bits = np.where(short, left, 0).astype(_U) * _U(8)
            word &= np.where(short, (_U(1) << bits) - _U(1), ~_U(0))
        found[rows] = mix(found[rows] ^ word)
    found |= _U(1)  # so that 0 stays free for null
    if texts.null_count:
        found[flags(texts.is_null())] = 0
    return found


def spots(offsets: Ints, values: Words) -> Words:
    """Of a value at its offset."""
    return combined(offsets, values)


def contents(spot: Words, crcs: Ints, keys: Words) -> Words:
    """The same with its bytes and its key."""
    return combined(spot, crcs, keys)


def summed(keys: Ints, *columns: Words) -> tuple[Any, ...]:
    """Columns summed by a key: the keys in order, how many rows of each, and the sums."""
    if not len(keys):
        return (keys, keys, *(np.zeros(0, _U) for _ in columns))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = starts_of(ordered)
    counts = np.diff(np.concatenate((first, [len(ordered)])))
    return (ordered[first], counts, *(np.add.reduceat(column[order], first) for column in columns))


def log_sums(keys: Ints, as_read: Words, as_sent: Words, valued: Flags) -> tuple[Any, ...]:
    """Of a log: stretches; records and their sum, to compare with reads; records with a value and their sum,
    to compare with sends."""
    found, counts, sums, with_value, of_values = summed(
        keys, as_read, valued.astype(_U), np.where(valued, as_sent, _U(0))
    )
    return found, counts, sums, with_value.astype(np.int64), of_values


def starts_of(*ordered: Any) -> Ints:
    """Where groups begin in columns that are sorted together."""
    if not len(ordered[0]):
        return np.zeros(0, np.int64)
    new = np.zeros(len(ordered[0]), np.bool_)
    new[0] = True
    for column in ordered:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def runs_of(*ordered: Any) -> tuple[Ints, Ints]:
    """The first and the last row of each group in columns that are sorted together."""
    first = starts_of(*ordered)
    return first, np.concatenate((first[1:], [len(ordered[0])])) - 1 if len(first) else first


def stretch_keys(parts: Ints, offsets: Ints) -> Ints:
    return (parts << OFFSET_BITS) | (offsets // STRETCH)


def among(values: Any, wanted: Any) -> Flags:
    """Which values are among those that are wanted, which are sorted."""
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    at = np.searchsorted(wanted, values)
    found: Flags = wanted[np.minimum(at, len(wanted) - 1)] == values
    return found


# ---------------------------------------------------------------- Arrow columns as numpy


def whole(column: Any) -> Any:
    """One array, of a column that may have several."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def ints(column: Any, null: int = -1) -> Ints:
    column = whole(column)
    if column.null_count:
        column = column.fill_null(null)
    found: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def flags(column: Any) -> Flags:
    column = whole(column)
    if column.null_count:
        column = column.fill_null(False)
    found: Flags = column.to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
    return found


def coded(column: Any) -> tuple[Ints, list[str | None]]:
    """A column of few names as numbers, and the names; a null has the last number, and is None."""
    column = whole(column)
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    names: list[str | None] = [*column.dictionary.to_pylist(), None]
    codes = ints(column.indices)
    return np.where(codes < 0, len(names) - 1, codes), names
