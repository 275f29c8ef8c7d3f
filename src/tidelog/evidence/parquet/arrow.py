"""The tables of evidence as Arrow spells them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.evidence.event_schema import Row
from tidelog.evidence.tables import SCHEMA_VERSION, Table

_TYPES = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "list<int32>": pa.list_(pa.int32()),
    "list<int64>": pa.list_(pa.int64()),
    "list<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def arrow_type(name: str) -> Any:
    return _TYPES[name]


@cache
def arrow_schema(table: Table) -> Any:
    """The columns of a table; its name and the version of the schema travel along in every file."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in table.columns]
    return pa.schema(fields, {"tidelog.table": table.name, "tidelog.schema_version": str(SCHEMA_VERSION)})


def arrow_rows(table: Table, rows: Iterable[Row]) -> Any:
    """Rows as an Arrow table. What a row does not mention is null; what the table does not know, an error."""
    schema = arrow_schema(table)
    known = set(schema.names)
    listed = []
    for row in rows:
        if not row.keys() <= known:
            raise ValueError(f"no such column of {table.name}: {', '.join(sorted(row.keys() - known))}")
        listed.append({name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()})
    return pa.Table.from_pylist(listed, schema)
