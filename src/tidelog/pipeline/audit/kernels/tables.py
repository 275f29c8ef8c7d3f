"""Rows of the large tables: some columns of a piece, as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.evidence.parquet.parts import arrow_schema
from tidelog.evidence.tables import LEDGER, READS, RECORDS
from tidelog.pipeline.audit.pieces import TablePiece
from tidelog.pipeline.errors import first_line
from tidelog.pipeline.files import Place

_SCHEMAS: Final = {table.name: arrow_schema(table) for table in (LEDGER, READS, RECORDS)}
_FEW: Final = {"topic", "producer", "consumer", "outcome", "transaction", "error", "group"}
"""Columns that hold few different texts: they stay numbers with a list of names."""


class UnreadableFile(Exception):
    """A Parquet file whose footer is good and whose pages are not. The message is one line."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why


def read_piece(place: Place, piece: TablePiece, columns: Sequence[str]) -> Any:
    """Raises `UnreadableFile`."""
    return read_groups(place, piece.file, piece.table, columns, piece.groups)


def read_groups(
    place: Place, name: str, table: str, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Any:
    """Columns that the file does not have are null."""
    try:
        with place.open(name) as source:
            few = [column for column in columns if column in _FEW]
            file = pq.ParquetFile(source, read_dictionary=few, page_checksum_verification=True)
            there = [column for column in columns if column in file.schema_arrow.names]
            listed = range(file.num_row_groups) if groups is None else groups
            found = file.read_row_groups(list(listed), columns=there, use_threads=False)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnreadableFile(name, first_line(error)) from None
    for column in columns:
        if column not in found.column_names:
            found = found.append_column(column, pa.nulls(len(found), _SCHEMAS[table].field(column).type))
    return found
