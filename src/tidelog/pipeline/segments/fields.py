"""The fields of many records at once, decoded with numpy.

Where records begin is known (see `walking`). From there on every field is read for all of them together (see
`varints`); keys, values and headers stay places in the bytes until a column needs them.

Rules of the file:

* What is decoded here is exactly what `tidelog.wire.records` decodes. Whatever is not as it should be,
  or merely unusual, makes its whole batch *doubtful*; who calls leaves those to that reader.
* Positions and lengths come from the bytes and are checked against their record before they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.segments.batches import BatchHeaders
from tidelog.pipeline.segments.places import Places, as_binary
from tidelog.pipeline.segments.varints import Bytes, Flags, Ints, Varints, read_varints

RECORD_SIZE_MIN = 7
"""Length, attributes, two differences, two lengths and a count, one byte each."""

_SMALL = 1 << 50
"""Differences and times below it cannot overflow when they are added: times until the year 37648."""
_HEADER_STEPS_MAX = 64
"""A record with more headers is doubtful: it is not worth a pass over all records for each of them."""


@dataclass(slots=True)
class HeaderFields:
    """All headers of all records, in order; `counts` says how many each record has."""

    counts: Ints
    names: Places
    contents: Places


@dataclass(slots=True)
class Records:
    """Records of the batches `batch`, numbers into their headers; `data` is where keys and values are."""

    data: bytes
    batch: Ints
    offset_delta: Ints
    timestamp_delta: Ints
    key: Places
    value: Places
    headers: HeaderFields | None
    """None: no record has any."""


def decode(data: bytes, positions: Ints, batch: Ints, headers: BatchHeaders) -> tuple[Records, Flags | None]:
    """The records at these positions, and which of them are doubtful (None: none is)."""
    view = np.frombuffer(data, np.uint8)
    doubt = _Doubts(len(positions))
    length = doubt.about(read_varints(view, positions))
    doubt.add(length.values <= 0)
    end = length.behind + np.maximum(length.values, 0)
    timestamp = doubt.about(read_varints(view, length.behind + 1))
    offset = doubt.about(read_varints(view, timestamp.behind))
    base_times = headers["base_timestamp"]
    doubt.add(np.abs(timestamp.values) >= _SMALL)
    doubt.add((np.abs(base_times) >= _SMALL)[batch])
    doubt.add((offset.values < 0) | (offset.values > headers["last_offset_delta"][batch]))
    key = _read_place(view, offset.behind, end, doubt)
    value = _read_place(view, key.behind, end, doubt)
    counts = doubt.about(read_varints(view, value.behind))
    found = None
    if counts.values.any():
        found = _read_headers(view, counts, end, doubt)
    else:
        doubt.add(counts.behind != end)
    if found is not None and not _are_text(data, found.names):
        doubt.add(counts.values > 0)
    return Records(data, batch, offset.values, timestamp.values, key, value, found), doubt.flags


class _Doubts:
    __slots__ = ("_size", "flags")

    def __init__(self, size: int) -> None:
        self._size = size
        self.flags: Flags | None = None

    def add(self, flags: Flags) -> None:
        if flags.any():
            self.flags = flags if self.flags is None else self.flags | flags

    def about(self, read: Varints) -> Varints:
        if read.strange is not None:
            self.add(read.strange)
        return read

    def add_at(self, where: Ints, flags: Flags) -> None:
        if flags.any():
            spread = np.zeros(self._size, np.bool_)
            spread[where[flags]] = True
            self.add(spread)


def _read_place(view: Bytes, at: Ints, end: Ints, doubt: _Doubts) -> Places:
    """Length-prefixed bytes that must end within their record."""
    place, outside = _place(view, at, end)
    doubt.add(outside)
    return place


def _place(view: Bytes, at: Ints, end: Ints) -> tuple[Places, Flags]:
    length = read_varints(view, np.minimum(at, end))
    behind = length.behind + np.maximum(length.values, 0)
    outside = behind > end
    if length.strange is not None:
        outside |= length.strange
    # Where nothing can be believed, nothing is followed either.
    behind = np.minimum(behind, end)
    return Places(np.minimum(length.behind, end), behind, length.values < 0), outside


def _read_headers(view: Bytes, counts: Varints, end: Ints, doubt: _Doubts) -> HeaderFields:
    """One pass over the records for the first header of each, one for the second, and so on."""
    many = counts.values > _HEADER_STEPS_MAX
    doubt.add(many | (counts.values < 0))
    wanted = np.where(many | (counts.values < 0), 0, counts.values)
    at = counts.behind.copy()
    passes: list[tuple[Ints, Places, Places]] = []
    for number in range(int(wanted.max(initial=0))):
        these = np.flatnonzero(wanted > number)
        name, outside = _place(view, at[these], end[these])
        doubt.add_at(these, outside | name.null)
        content, outside = _place(view, name.behind, end[these])
        doubt.add_at(these, outside)
        at[these] = content.behind
        passes.append((these, name, content))
    doubt.add((at != end) & ~many)
    owners = np.concatenate([these for these, _, _ in passes] or [np.empty(0, np.int64)])
    # The passes are in the order of headers, the rows must be in the order of records.
    order = np.argsort(owners, kind="stable")
    names = Places.joined([name for _, name, _ in passes]).ordered(order)
    contents = Places.joined([content for _, _, content in passes]).ordered(order)
    return HeaderFields(wanted, names, contents)


def _are_text(data: bytes, names: Places) -> bool:
    try:
        as_binary(data, names).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
