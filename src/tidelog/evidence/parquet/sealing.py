"""Convert journals to Parquet column by column, without a loop over rows.

The columns of a journal have Arrow's layout, so a file of 65,536 rows takes some tens of milliseconds. The
journal is removed when its Parquet file is complete. After an interruption both exist, and the same Parquet
file is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.journals.clients import OUTCOMES
from tidelog.evidence.journals.slots import SlotColumn, Slots
from tidelog.evidence.parquet.parts import arrow_schema, write_part
from tidelog.evidence.tables import TABLES

_NUMBERS: Final = {"b": pa.int8(), "i": pa.int32(), "q": pa.int64()}
_TABLES: Final = {table.name: table for table in TABLES}


def seal(slots: Slots, evidence: Path) -> Path | None:
    """Write the rows of a journal into their table and remove the journal. None if it had no rows."""
    content = to_arrow(slots)
    written = None
    if content.num_rows:
        written = write_part(evidence / slots.table, slots.path.stem, content)
    slots.path.unlink()
    return written


def copy_live(path: Path, evidence: Path) -> None:
    """Write the rows that a journal has by now into their table. It goes on, and is sealed under the same
    name when its writer is done."""
    slots = Slots.watch(path)
    content = to_arrow(slots)
    if content.num_rows:
        write_part(evidence / slots.table, path.stem, content)


def to_arrow(slots: Slots, rows: int | None = None) -> Any:
    """The rows of a journal, or only the first ones, as an Arrow table."""
    rows = slots.rows() if rows is None else rows
    schema = arrow_schema(_TABLES[slots.table])
    # Copied first: a send that is settled meanwhile is unknown here, never settled by half.
    marks = pa.Array.from_buffers(pa.int8(), rows, [None, pa.py_buffer(bytes(slots.marks[:rows]))])
    arrays = []
    for field in schema:
        if field.name in ("value", "transaction") and "values" in slots.constants:
            array = _made(slots, field.name, rows)
        elif field.name in slots.columns:
            array = _array(slots, slots.columns[field.name], rows)
        elif field.name == "outcome":
            array = pa.array(OUTCOMES).take(marks)
        elif field.name in slots.constants:
            array = pa.repeat(pa.scalar(slots.constants[field.name], field.type), rows)
        else:
            array = pa.nulls(rows, field.type)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _made(slots: Slots, name: str, rows: int) -> Any:
    """Names that a kept ledger (`tidelog.ledger`) does not spell out in every row."""
    constants, columns = slots.constants, slots.columns
    if name == "transaction":
        numbers = _array(slots, columns[name], rows)
        return pc.binary_join_element_wise(constants["transactions"], numbers.cast(pa.string()), "-t")
    if constants["values"] == "header":
        numbers = _array(slots, columns["sequence"], rows)
        return pc.binary_join_element_wise(constants["stream"], numbers.cast(pa.string()), "-")
    return content_names(*(_array(slots, columns[each], rows) for each in ("value_bytes", "value_crc32c")))


def content_names(sizes: Any, crcs: Any) -> Any:
    """`tidelog.ledger.identity.content_name` of many values; null where the size is null."""
    numbers = crcs.to_numpy(zero_copy_only=False).astype(">u4")
    digits = pa.py_buffer(numbers.tobytes().hex().encode())
    words = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, digits]).cast(pa.binary())
    return pc.binary_join_element_wise(sizes.cast(pa.string()), words.cast(pa.string()), ".")


def _array(slots: Slots, column: SlotColumn, rows: int) -> Any:
    buffer = pa.py_buffer(slots.bytes_of(column.name, rows))
    if column.is_text:
        fixed = pa.Array.from_buffers(pa.binary(column.width), rows, [None, buffer])
        text = pc.utf8_rtrim(fixed.cast(pa.binary()).cast(pa.string()), characters="\0")
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if column.name in slots.constants:  # a list of names; the column holds indexes into it
        numbers = pa.Array.from_buffers(_NUMBERS[column.code], rows, [None, buffer])
        return pa.array(slots.constants[column.name], pa.string()).take(numbers)
    array = pa.Array.from_buffers(_NUMBERS[column.code], rows, [None, buffer])
    if column.absent == "never":
        return array
    there = array if column.absent == "zero" else pc.subtract(array, pa.scalar(1, array.type))
    return pc.if_else(pc.equal(array, 0), pa.scalar(None, array.type), there)


class Sealer:
    """Seals journals in a thread, in the order in which they are submitted."""

    def __init__(self, evidence: Path, failed: Callable[[Path, Exception], None]) -> None:
        """`failed` is called in the sealer's thread for a journal that could not be sealed, and is kept."""
        self._evidence = evidence
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sealer")

    def seal(self, slots: Slots) -> None:
        self._thread.submit(self._seal, slots)

    def close(self) -> None:
        """Wait until all submitted journals are sealed."""
        self._thread.shutdown(wait=True)

    def _seal(self, slots: Slots) -> None:
        try:
            seal(slots, self._evidence)
        except (OSError, pa.ArrowException) as error:
            self._failed(slots.path, error)
