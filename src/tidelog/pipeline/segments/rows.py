"""Decoded records and problems as Arrow: only the columns that are wanted, in the order in which they are.

A column that was not asked for costs nothing: no key is copied, no CRC is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.files import Place
from tidelog.pipeline.segments import texts
from tidelog.pipeline.segments.batches import BatchHeaders
from tidelog.pipeline.segments.columns import HEADERS_TYPE, NAMES, arrow_schema
from tidelog.pipeline.segments.fields import HeaderFields, Records
from tidelog.pipeline.segments.places import Places, as_binary
from tidelog.pipeline.segments.scan import Problem
from tidelog.pipeline.segments.varints import Flags, Ints
from tidelog.wire.compression import Compression

_NOWHERE: Final = Places.joined([])
SEQUENCES: Final = 1 << 31
"""Sequence numbers of a producer start again at 0 after this many."""

_CODECS: Final = pa.array([codec.name.lower() for codec in Compression], pa.string())


@dataclass(slots=True, frozen=True)
class SegmentFile:
    """A segment file, by its name in a place, and whose it is. `start` and `end` are positions of batches;
    `end` None: all of it."""

    place: Place
    name: str
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None
    start: int = 0
    end: int | None = None

    @property
    def base_offset(self) -> int:
        """By its name; 0 if that is not a number."""
        stem = self.name.rpartition("/")[2].removesuffix(".log")
        return int(stem) if stem.isdigit() else 0

    @property
    def path(self) -> str:
        return f"{self.place}/{self.name}"

    @classmethod
    def at(cls, path: Path) -> Self:
        """A file of this machine."""
        return cls(Place.of(path.parent), path.name)


class Rows:
    """Makes the rows of one segment."""

    def __init__(self, segment: SegmentFile, columns: Sequence[str] | None) -> None:
        self.schema = arrow_schema(NAMES if columns is None else columns)
        self._constants = {
            "broker": segment.broker,
            "topic": segment.topic,
            "partition": segment.partition,
            "file": segment.path,
        }

    def of_records(self, records: Records, headers: BatchHeaders) -> Any:
        """All of them have passed their CRC."""
        count = len(records.batch)
        arrays = []
        for field in self.schema:
            if field.name in self._constants:
                array = pa.repeat(pa.scalar(self._constants[field.name], field.type), count)
            elif field.name == "problem":
                array = pa.nulls(count, field.type)
            else:
                array = _COLUMNS[field.name](records, headers)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_dicts(self, rows: Sequence[dict[str, Any]]) -> Any:
        """Rows that were made one by one; what they do not mention is null."""
        return pa.RecordBatch.from_pylist([self._constants | row for row in rows], schema=self.schema)

    def of_problems(self, problems: Sequence[Problem]) -> Any:
        return self.of_dicts(
            [
                {
                    "position": problem.position,
                    "batch_base_offset": problem.base_offset,
                    "crc_ok": problem.crc_ok,
                    "problem": problem.words,
                }
                for problem in problems
            ]
        )


# ---------------------------------------------------------------- the columns

_Make = Callable[[Records, BatchHeaders], Any]


def _known(values: Ints, *, unless: Flags) -> Any:
    return pa.array(values, mask=unless) if unless.any() else pa.array(values)


def _of_batch(field: str) -> _Make:
    """A field of the batch's header, the same for all its records; a negative value means none."""

    def make(records: Records, headers: BatchHeaders) -> Any:
        values = headers[field]
        return _known(values[records.batch], unless=(values < 0)[records.batch])

    return make


def _timestamp(records: Records, headers: BatchHeaders) -> Any:
    batch = records.batch
    times = headers["base_timestamp"][batch] + records.timestamp_delta
    if headers.append_time.any():
        times = np.where(headers.append_time[batch], headers["max_timestamp"][batch], times)
    return _known(times, unless=times == -1)


def _sequence(records: Records, headers: BatchHeaders) -> Any:
    base = headers["base_sequence"]
    values = (base[records.batch] + records.offset_delta) % SEQUENCES
    return _known(values, unless=(base < 0)[records.batch])


def _header_lists(records: Records, _: BatchHeaders) -> Any:
    found = records.headers
    if found is None:
        found = HeaderFields(np.zeros(len(records.batch), np.int64), _NOWHERE, _NOWHERE)
    ends = np.concatenate(([0], np.cumsum(found.counts))).astype(np.int32)
    names = as_binary(records.data, found.names).cast(pa.string())
    contents = as_binary(records.data, found.contents)
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=HEADERS_TYPE)


def _value_bytes(records: Records, _: BatchHeaders) -> Any:
    return _known(records.value.sizes, unless=records.value.null)


_COLUMNS: Final[dict[str, _Make]] = {
    "offset": lambda r, h: pa.array(h["base_offset"][r.batch] + r.offset_delta),
    "leader_epoch": _of_batch("leader_epoch"),
    "timestamp_ms": _timestamp,
    "producer_id": _of_batch("producer_id"),
    "producer_epoch": _of_batch("producer_epoch"),
    "producer_sequence": _sequence,
    "transactional": lambda r, h: pa.array(h.transactional[r.batch]),
    "control": lambda r, h: pa.array(h.control[r.batch]),
    "key": lambda r, h: as_binary(r.data, r.key),
    "value": lambda r, h: as_binary(r.data, r.value),
    "headers": _header_lists,
    "key_text": lambda r, h: texts.key_texts(r.data, r.key),
    "value_id": lambda r, h: texts.id_texts(r.data, r.value),
    "value_bytes": _value_bytes,
    "value_crc32": lambda r, h: texts.crcs(r.data, r.value),
    "compression": lambda r, h: _CODECS.take(pa.array(h.codecs[r.batch])),
    "batch_base_offset": lambda r, h: pa.array(h["base_offset"][r.batch]),
    "position": lambda r, h: pa.array(h.positions[r.batch]),
    "crc_ok": lambda r, h: pa.repeat(pa.scalar(True), len(r.batch)),
}
