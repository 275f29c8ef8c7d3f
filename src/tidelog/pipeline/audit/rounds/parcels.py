"""Rows on their way from one round to the next, as Arrow blobs by bucket. Few of them travel with a result;
many are put down as files beside the evidence, which all workers reach, and never pass the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Context

INLINE_MAX: Final = 1 << 20
ROWS_PER_BUCKET: Final = 1 << 17
"""So that causes of many findings are looked for in parallel."""
BUCKETS_MAX: Final = 64
"""A piece may write a file for each."""


@dataclass(slots=True, frozen=True)
class Parcel:
    kind: str
    bucket: int
    bytes: int
    blob: Any = None
    """None: in the file."""
    file: str = ""


@dataclass(slots=True, frozen=True)
class Bucket:
    """What one task brings together."""

    number: int
    parcels: tuple[Parcel, ...]
    bytes: int


def pack(  # noqa: PLR0917
    context: Context, name: str, kind: str, table: Any, buckets: Any, count: int
) -> list[Parcel]:
    """The rows of a table, each in its bucket."""
    found: list[Parcel] = []
    if table is None or not table.num_rows:
        return found
    parts = [(0, table)]
    if count > 1:
        order = np.argsort(buckets, kind="stable")
        bounds = np.searchsorted(buckets[order], np.arange(count + 1))
        parts = [
            (number, table.take(pa.array(order[bounds[number] : bounds[number + 1]])))
            for number in range(count)
            if bounds[number] < bounds[number + 1]
        ]
    for bucket, rows in parts:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        blob = sink.getvalue()
        if len(blob) * count <= INLINE_MAX:
            found.append(Parcel(kind, bucket, len(blob), blob.to_pybytes()))
        else:
            file = f"{context.scratch}/{name}-{kind}-{bucket:04}.arrow"
            context.target.write(file, blob)
            found.append(Parcel(kind, bucket, len(blob), file=file))
    return found


def buckets_of(parcels: Iterable[Parcel]) -> list[Bucket]:
    listed: dict[int, list[Parcel]] = {}
    for parcel in parcels:
        listed.setdefault(parcel.bucket, []).append(parcel)
    return [
        Bucket(number, tuple(mine), sum(parcel.bytes for parcel in mine))
        for number, mine in sorted(listed.items())
    ]


def unpack(context: Context, bucket: Bucket, kind: str) -> Any:
    """All rows of a kind; None: there are none."""
    tables = []
    for parcel in bucket.parcels:
        if parcel.kind == kind:
            blob = parcel.blob if parcel.blob is not None else context.target.read(parcel.file)
            tables.append(pa.ipc.open_stream(blob).read_all())
    if not tables:
        return None
    return pa.concat_tables(tables, promote_options="default")
