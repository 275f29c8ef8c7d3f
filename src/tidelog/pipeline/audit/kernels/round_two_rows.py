"""Round two: rows on their way to be brought together. First those of stretches that differ, by place; then
all sends of values whose place is not known, wherever they are, by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.kernels.hashes import (
    OFFSET_BITS,
    STRETCH,
    Flags,
    Ints,
    Words,
    among,
    flags,
    ints,
    stretch_keys,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.ledger_piece import OK, sends_of, value_keys
from tidelog.pipeline.audit.kernels.log_piece import LOG_COLUMNS, final_rows
from tidelog.pipeline.audit.kernels.reads_piece import COLUMNS as READS_COLUMNS
from tidelog.pipeline.audit.kernels.reads_piece import is_jump, is_long, reads_of
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import LogPiece, Piece, RecordsPiece, TablePiece
from tidelog.pipeline.audit.rounds.parcels import Parcel, pack

SEND_COLUMNS: Final = (
    *("producer", "sequence", "topic", "partition", "key", "value", "value_crc32", "acks", "idempotent"),
    *("sent_us", "settled_us", "outcome", "offset", "leader_epoch", "error"),
)
LOG, SENT, READ, JUMPED = "log", "sent", "read", "jumped"
SEND: Final = "send"
EXACT_MAX: Final = 4_000_000
_BITS: Final = 27
_MASK: Final = (1 << OFFSET_BITS) - 1


@dataclass(slots=True, frozen=True)
class Wanted:
    """Stretches to look at, sorted, and in how many buckets."""

    context: Context
    keys: Ints
    buckets: int


def bucket_numbers(keys: Any, count: int) -> Any:
    return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)).astype(np.int64) % count


def emit_places(wanted: Wanted, piece: Piece) -> list[Parcel]:
    if isinstance(piece, TablePiece):
        return _of_sends(wanted, piece) if piece.table == LEDGER.name else _of_reads(wanted, piece)
    found = [_logged(rows, wanted) for rows in _log_rows(wanted, piece) if rows is not None]
    return _packed(wanted, f"l{piece.number:06}", LOG, pa.concat_tables(found) if found else None)


def _packed(wanted: Wanted, name: str, kind: str, table: Any) -> list[Parcel]:
    if table is None or not table.num_rows:
        return []
    keys = stretch_keys(ints(table["part"]), ints(table["offset"]))
    return pack(wanted.context, name, kind, table, bucket_numbers(keys, wanted.buckets), wanted.buckets)


def _log_rows(wanted: Wanted, piece: LogPiece | RecordsPiece) -> Iterator[Any]:
    """Of a log at least the stretches that are wanted. Those far from each other are read one by one, those
    beside each other together."""
    if isinstance(piece, RecordsPiece):
        yield final_rows(wanted.context, piece, LOG_COLUMNS)
        return
    first = np.searchsorted(wanted.keys, piece.part << OFFSET_BITS)
    last = np.searchsorted(wanted.keys, (piece.part + 1) << OFFSET_BITS)
    mine = wanted.keys[first:last] & _MASK
    mine = mine[(mine * STRETCH < piece.high) & ((mine + 1) * STRETCH > piece.low)]
    for run in np.split(mine, np.flatnonzero(np.diff(mine) > 8) + 1) if len(mine) else ():
        span = range(int(run[0]) * STRETCH, (int(run[-1]) + 1) * STRETCH)
        yield final_rows(wanted.context, piece, LOG_COLUMNS, span)


def _logged(rows: Any, wanted: Wanted) -> Any:
    keys = stretch_keys(ints(rows["part"]), ints(rows["offset"]))
    rows = rows.filter(pa.array(among(keys, wanted.keys)))
    return rows.rename_columns(
        [{"value_id": "value", "key_text": "key"}.get(name, name) for name in rows.column_names]
    )


def _plain(table: Any) -> Any:
    """Names as texts: tables of different files have different lists of them."""
    columns = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def sends_table(  # noqa: PLR0917
    context: Context, piece: TablePiece, table: Any, rows: Ints, part: Ints, outcome: Ints
) -> Any:
    """Rows of the ledger with `part`, `row` (their number in the trial) and the outcome as a number."""
    found = _plain(table.select([c for c in SEND_COLUMNS if c not in ("topic", "partition", "outcome")]))
    found = found.take(pa.array(rows))
    numbers = (piece.number << 32) | rows
    for name, column in (("part", part[rows]), ("row", numbers), ("outcome", outcome[rows])):
        found = found.append_column(name, pa.array(column))
    return found


def _of_sends(wanted: Wanted, piece: TablePiece) -> list[Parcel]:
    context = wanted.context
    columns = (*SEND_COLUMNS, "transaction") if piece.transactional else SEND_COLUMNS
    table = read_piece(context.place, piece, columns)
    sends = sends_of(context, table)
    starts, _ = context.limits()
    there = sends.known & (sends.outcome == OK) & (sends.offset >= starts[sends.part])
    there &= among(stretch_keys(sends.part, sends.offset), wanted.keys)
    rows = np.flatnonzero(there)
    found = sends_table(context, piece, table, rows, sends.part, sends.outcome)
    return _packed(wanted, f"s{piece.number:06}", SENT, found)


def _of_reads(wanted: Wanted, piece: TablePiece) -> list[Parcel]:
    context = wanted.context
    table = read_piece(context.place, piece, READS_COLUMNS)
    reads = reads_of(context, table)
    starts, _ = context.limits()
    there = (reads.part >= 0) & (reads.offset >= starts[reads.part])
    there &= among(stretch_keys(reads.part, reads.offset), wanted.keys)
    found = _packed(wanted, f"r{piece.number:06}", READ, _read_rows(table, reads.part, there))
    jumps = is_jump(reads) & ~is_long(reads)
    if jumps.any():
        jumped = _read_rows(table, reads.part, jumps)
        # They are looked up where they began.
        jumped = jumped.append_column("landed", jumped["offset"]).drop_columns(["offset", "position_before"])
        began = pa.array(reads.before[jumps])
        jumped = jumped.append_column("offset", began).append_column("position_before", began)
        found += _packed(wanted, f"j{piece.number:06}", JUMPED, jumped)
    return found


def _read_rows(table: Any, part: Ints, chosen: Any) -> Any:
    names = ["consumer", "offset", "leader_epoch", "key", "value", "value_crc32", "timestamp_ms", "read_us"]
    found = _plain(table.select([*names, "poll", "position_before"]).filter(pa.array(chosen)))
    return found.append_column("part", pa.array(part[chosen]))


# ---------------------------------------------------------------- by value


@dataclass(slots=True, frozen=True)
class Suspects:
    """Values to look at: as a sorted list, or if there are very many as bits, which let others through."""

    context: Context
    exact: Words | None
    bits: Flags | None
    buckets: int

    def holds(self, keys: Words) -> Flags:
        if self.exact is not None:
            return among(keys, self.exact)
        assert self.bits is not None
        found: Flags = self.bits[(keys >> np.uint64(64 - _BITS)).astype(np.int64)]
        return found


def suspects(context: Context, candidates: Words, buckets: int) -> Suspects:
    if len(candidates) <= EXACT_MAX:
        return Suspects(context, candidates, None, buckets)
    bits = np.zeros(1 << _BITS, np.bool_)
    bits[(candidates >> np.uint64(64 - _BITS)).astype(np.int64)] = True
    return Suspects(context, None, bits, buckets)


def emit_values(wanted: Suspects, piece: TablePiece) -> list[Parcel]:
    context = wanted.context
    names = read_piece(context.place, piece, ("topic", "partition", "value"))
    part, value = context.numbers(names), text_hashes(names["value"])
    _, ends = context.limits()
    keys = value_keys(part, value)
    chosen = wanted.holds(keys) & (part >= 0) & (value != 0) & (ends[part] >= 0)
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    columns: tuple[Any, ...] = (*SEND_COLUMNS, "transaction") if piece.transactional else SEND_COLUMNS
    table = read_piece(context.place, piece, columns)
    sends = sends_of(context, table)
    found = sends_table(context, piece, table, rows, sends.part, sends.outcome)
    if piece.transactional:
        in_one = ~flags(table["transaction"].is_null())[rows]
    else:
        in_one = np.zeros(len(rows), np.bool_)
    found = found.append_column("in_transaction", pa.array(in_one))
    found = found.append_column("placed", pa.array(sends.placed[rows]))
    return pack(
        context,
        f"w{piece.number:06}",
        SEND,
        found,
        bucket_numbers(keys[rows], wanted.buckets),
        wanted.buckets,
    )
