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

from tidelog.evidence.journals.clients import INTENDED, OUTCOMES, plain
from tidelog.evidence.journals.slots import SlotColumn, Slots
from tidelog.evidence.parquet.parts import arrow_schema, write_part
from tidelog.evidence.tables import TABLES

_NUMBERS: Final = {"b": pa.int8(), "i": pa.int32(), "I": pa.uint32(), "q": pa.int64()}
_MADE: Final = frozenset({"sequence", "partition", "value", "transaction"})
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
    marks = _packed_marks(slots, rows) if slots.stride else _buffer(pa.int8(), bytes(slots.marks[:rows]))
    arrays = []
    for field in schema:
        if field.name in _MADE and "values" in slots.constants:
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
    made = pa.Table.from_arrays(arrays, schema=schema)
    # A thread may have been killed while it filled a packed row between others.
    return made.filter(pc.greater(marks, 0)) if slots.stride else made


def _packed_marks(slots: Slots, rows: int) -> Any:
    """The marks that a file of columns would have."""
    outcomes = _buffer(pa.int8(), slots.bytes_of("mark", rows))
    intended = _buffer(pa.int64(), slots.bytes_of("sent_us", rows))
    complete = pc.if_else(pc.greater(outcomes, 0), outcomes, pa.scalar(INTENDED, pa.int8()))
    return pc.if_else(pc.equal(intended, 0), pa.scalar(0, pa.int8()), complete)


def _buffer(type_: Any, content: Any) -> Any:
    return pa.Array.from_buffers(type_, len(content) * 8 // type_.bit_width, [None, pa.py_buffer(content)])


def _made(slots: Slots, name: str, rows: int) -> Any:
    """What a kept ledger (`tidelog.ledger`) does not spell out in every row."""
    constants, columns = slots.constants, slots.columns
    if name == "sequence":
        return _sequence(slots, rows)
    if name == "partition":
        settled = _array(slots, columns["partition"], rows)
        return pc.coalesce(settled, _array(slots, columns["wanted"], rows)) if slots.stride else settled
    if name == "transaction":
        numbers = _array(slots, columns[name], rows)
        return pc.binary_join_element_wise(constants["transactions"], numbers.cast(pa.string()), "-t")
    if constants["values"] == "header":
        numbers = _sequence(slots, rows)
        return pc.binary_join_element_wise(constants["stream"], numbers.cast(pa.string()), "-")
    return content_names(*(_array(slots, columns[each], rows) for each in ("value_bytes", "value_crc32c")))


def _sequence(slots: Slots, rows: int) -> Any:
    if slots.stride:
        first = slots.constants["first"]
        return pa.array(range(first, first + rows), pa.int64())
    return _array(slots, slots.columns["sequence"], rows)


def content_names(sizes: Any, crcs: Any) -> Any:
    """`tidelog.ledger.identity.content_name` of many values; null where the size is null."""
    numbers = crcs.to_numpy(zero_copy_only=False).astype(">u4")
    digits = pa.py_buffer(numbers.tobytes().hex().encode())
    words = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, digits]).cast(pa.binary())
    return pc.binary_join_element_wise(sizes.cast(pa.string()), words.cast(pa.string()), ".")


def _array(slots: Slots, column: SlotColumn, rows: int) -> Any:
    buffer = pa.py_buffer(slots.bytes_of(column.name, rows))
    if column.is_text:
        if column.has_length:
            text = _lengthy_text(buffer, column.width)
        else:
            fixed = pa.Array.from_buffers(pa.binary(column.width), rows, [None, buffer])
            text = pc.utf8_rtrim(fixed.cast(pa.binary()).cast(pa.string()), characters="\0")
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if column.name in slots.constants:  # a list of names; the column holds indexes into it
        numbers = pa.Array.from_buffers(_NUMBERS[column.code], rows, [None, buffer])
        return pa.array(slots.constants[column.name], pa.string()).take(numbers)
    array = pa.Array.from_buffers(_NUMBERS[column.code], rows, [None, buffer])
    if column.absent == "never":
        return array
    match column.absent:
        case "zero":
            there = array
        case "plus_one":
            there = pc.subtract(array, pa.scalar(1, array.type))
        case "nanoseconds":
            there = pc.divide(array, pa.scalar(1000, array.type))
    return pc.if_else(pc.equal(array, 0), pa.scalar(None, array.type), there)


def _lengthy_text(buffer: Any, width: int) -> Any:
    """Packed texts: a length, then as many bytes, which may be any. They become what `plain` makes of
    them."""
    from numpy import count_nonzero, frombuffer, uint8

    raw = frombuffer(buffer, uint8).reshape(-1, width)
    lengths, content = raw[:, 0], raw[:, 1:]
    if (content < 128).all() and (count_nonzero(content, axis=1) == lengths).all():
        fixed = _buffer(pa.binary(width - 1), content.tobytes())
        return pc.utf8_rtrim(fixed.cast(pa.binary()).cast(pa.string()), characters="\0")
    texts = [plain(row[1 : row[0] + 1]).decode() for row in map(bytes, raw)]
    return pa.array(texts, pa.string())


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
