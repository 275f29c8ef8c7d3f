"""Round two, second half, on its way: all sends of values whose place is not known, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.kernels.hashes import Flags, Words, among, flags, text_hashes
from tidelog.pipeline.audit.kernels.ledger_piece import sends_of, value_keys
from tidelog.pipeline.audit.kernels.place_rows import SEND_COLUMNS, bucket_numbers, sends_table
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import TablePiece
from tidelog.pipeline.audit.rounds.parcels import Parcel, pack

SEND: Final = "send"
EXACT_MAX: Final = 4_000_000
_BITS: Final = 27


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
    found = found.append_column("told", pa.array(sends.told[rows]))
    return pack(
        context,
        f"w{piece.number:06}",
        SEND,
        found,
        bucket_numbers(keys[rows], wanted.buckets),
        wanted.buckets,
    )
