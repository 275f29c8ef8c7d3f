"""Parquet files of evidence: written one by one, whole or not at all, and read back as one table.

Rules of the file:

* An incomplete file has a hidden name, which Spark and Arrow skip, and gets its own name when it is complete.
  A reader of a growing folder sees only complete files.
* A file is never changed. A table grows by more files, so memory is bounded by one of them.
* A name follows from the file's content. Repeating interrupted work writes the same file again, not a second
  one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.evidence.event_schema import Row
from tidelog.evidence.tables import SCHEMA_VERSION, Table

SUFFIX = ".parquet"

_TYPES = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "list<int32>": pa.list_(pa.int32()),
    "list<string>": pa.list_(pa.string()),
    "list<int64>": pa.list_(pa.int64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


# ---------------------------------------------------------------- Arrow tables


def arrow_type(name: str) -> Any:
    return _TYPES[name]


@cache
def arrow_schema(table: Table) -> Any:
    """The columns of a table. Its metadata holds the table's name and the version of the schema."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in table.columns]
    return pa.schema(fields, {"tidelog.table": table.name, "tidelog.schema_version": str(SCHEMA_VERSION)})


def arrow_rows(table: Table, rows: Iterable[Row]) -> Any:
    """Rows as an Arrow table. A missing column is null; an unknown column is an error."""
    schema = arrow_schema(table)
    known = set(schema.names)
    listed = []
    for row in rows:
        if not row.keys() <= known:
            raise ValueError(f"no such column of {table.name}: {', '.join(sorted(row.keys() - known))}")
        listed.append({name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()})
    return pa.Table.from_pylist(listed, schema)


# ---------------------------------------------------------------- files


def write_part(folder: Path, stem: str, content: Any) -> Path:
    """One file of a table, from an Arrow table."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}{SUFFIX}"
    unfinished = folder / f".{path.name}.tmp"
    try:
        # Without them, what a disk changed in a page is read as if it had been written.
        pq.write_table(content, unfinished, compression="zstd", write_page_checksum=True)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    return path


class PartWriter:
    """Rows to files `<stem>-000000.parquet`, `<stem>-000001.parquet`, …: one for every `rows_max` rows, or
    when `seconds_max` have passed since its first row."""

    def __init__(
        self,
        folder: Path,
        table: Table,
        stem: str = "part",
        *,
        rows_max: int = 50_000,
        seconds_max: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._table = table
        self._stem = stem
        self._rows_max = rows_max
        self._seconds_max = seconds_max
        self._clock = clock
        self._rows: list[Row] = []
        self._first_at = 0.0
        self._parts = 0

    def write(self, row: Row) -> None:
        if not self._rows:
            self._first_at = self._clock()
        self._rows.append(row)
        if len(self._rows) >= self._rows_max or self._clock() - self._first_at >= self._seconds_max:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            write_part(self._folder, f"{self._stem}-{self._parts:06d}", arrow_rows(self._table, self._rows))
            self._parts += 1
            self._rows = []

    close = flush


def part_files(folder: Path) -> list[Path]:
    """The complete files of a table, by name; empty if nothing was recorded."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.name[0] not in "._")


def dataset(evidence: Path, table: Table) -> Any:
    """A table of an evidence folder as an Arrow dataset: empty if the table has no folder."""
    files = [str(path) for path in part_files(evidence / table.name)]
    schema = arrow_schema(table)
    if not files:
        return ds.dataset(pa.Table.from_pylist([], schema))
    return ds.dataset(files, schema=schema, format="parquet")


def read_table(evidence: Path, table: Table, columns: Sequence[str] | None = None, where: Any = None) -> Any:
    """A whole table, or some columns and rows of it, in memory."""
    return dataset(evidence, table).to_table(columns=None if columns is None else list(columns), filter=where)


def rows_of(evidence: Path, table: Table) -> Iterator[Row]:
    """A table row by row, without nulls, in bounded memory."""
    for batch in dataset(evidence, table).to_batches():
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield {name: value for name, value in row.items() if value is not None}


def damaged_part(evidence: Path, tables: Iterable[Table]) -> Path | None:
    """The first file of some tables that cannot be read."""
    for path in (path for table in tables for path in part_files(evidence / table.name)):
        try:
            pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError):
            return path
    return None
