"""What the log holds in the stretches that differ, to look offsets up in: that of a replica, or where none
can be seen what the final reader read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.kernels.hashes import (
    Flags,
    Ints,
    Words,
    flags,
    ints,
    runs_of,
    starts_of,
    text_hashes,
)

SPOT_BITS: Final = 40
NEVER: Final = 1 << 62
_NOTHING: Final = np.zeros(0, np.int64)


class Held:
    """What the log holds: rows sorted by partition and offset, to look offsets up in."""

    def __init__(self, context: Context, log: Any, reads: Any) -> None:
        self.spot: Ints = _NOTHING
        self.value: Words = np.zeros(0, np.uint64)
        self.shown: Flags = np.zeros(0, np.bool_)
        self.part: Ints = _NOTHING
        self.crc: Ints = _NOTHING
        self.key: Words = self.value
        self.from_us: Ints = _NOTHING
        """When each record was appended at the earliest: it and those before had been sent; -1: unknown."""
        self.until_us: Ints = _NOTHING
        """When at the latest: it, or one behind it, had been acknowledged there."""
        tables = [table for table in (log, _log_of_reader(context, reads)) if table is not None]
        self.table: Any = pa.concat_tables(tables, promote_options="permissive") if tables else None
        if self.table is None:
            return
        spot = spots_of(self.table)
        order = np.argsort(spot, kind="stable")
        self.table = self.table.take(pa.array(order))
        self.spot = spot[order]
        self.value = text_hashes(self.table["value"])
        self.shown = flags(self.table["visible"])
        self.part = ints(self.table["part"])
        self.offset = ints(self.table["offset"])
        self.crc = ints(self.table["value_crc32"])
        self.key = text_hashes(self.table["key"])
        self.epoch = ints(self.table["leader_epoch"])
        sent_ms = ints(self.table["timestamp_ms"])
        self.from_us = np.where(sent_ms < 0, -1, sent_ms * 1000)
        self.until_us = np.full(len(spot), NEVER)

    def at(self, spots: Ints) -> Ints:
        """The row at each spot; -1: there is none."""
        if not len(self.spot):
            return np.full(len(spots), -1, np.int64)
        found = np.minimum(np.searchsorted(self.spot, spots), len(self.spot) - 1)
        return np.where(self.spot[found] == spots, found, -1)

    def value_at(self, row: int) -> str | None:
        found: str | None = self.table["value"][row].as_py()
        return found

    def epoch_at(self, row: int) -> int | None:
        return None if self.epoch[row] < 0 else int(self.epoch[row])

    def learn(self, rows: Ints, sent_us: Ints, settled_us: Ints) -> None:
        """From sends that are where they were acknowledged. Where the log tells no time, the ledger may."""
        self.from_us[rows] = np.where(self.from_us[rows] < 0, sent_us, self.from_us[rows])
        self.until_us[rows] = np.where(settled_us < 0, NEVER, settled_us)
        first, last = runs_of(self.part)
        for mine in map(slice, first.tolist(), (last + 1).tolist()):
            self.from_us[mine] = np.maximum.accumulate(self.from_us[mine])
            self.until_us[mine] = np.minimum.accumulate(self.until_us[mine][::-1])[::-1]

    def times_at(self, row: int) -> dict[str, Any]:
        since, until = int(self.from_us[row]), int(self.until_us[row])
        return {
            "other_us": since if since >= 0 else None,
            "other_until_us": until if until < NEVER else None,
        }


def spots_of(table: Any, offset: str = "offset") -> Ints:
    return (ints(table["part"]) << SPOT_BITS) | ints(table[offset])


def _log_of_reader(context: Context, reads: Any) -> Any:
    """Where no replica can be seen, what the final reader read is the log, each offset and value once."""
    if reads is None or context.final_reader is None:
        return None
    unseen = np.array([*(part.broker is None for part in context.parts), False])
    mine = unseen[ints(reads["part"])] & flags(pc.equal(reads["consumer"], context.final_reader))
    if not mine.any():
        return None
    rows = reads.filter(pa.array(mine))
    order = np.lexsort((text_hashes(rows["value"]), spots_of(rows)))
    spot, value = spots_of(rows)[order], text_hashes(rows["value"])[order]
    rows = rows.take(pa.array(order[starts_of(spot, value)]))
    found = rows.select(["offset", "leader_epoch", "key", "value", "value_crc32", "timestamp_ms", "part"])
    count = len(found)
    for name, column in (
        ("control", pa.repeat(False, count)),
        ("visible", pa.repeat(True, count)),
        ("transactional", pa.nulls(count, pa.bool_())),
        ("producer_id", pa.nulls(count, pa.int64())),
        ("producer_epoch", pa.nulls(count, pa.int32())),
    ):
        found = found.append_column(name, column)
    return found


def held_or(column: Any, rows: Ints, fallback: Any) -> Any:
    """A column of the log at some rows; where there is none, something else."""
    if not len(column):
        return np.full(len(rows), fallback)
    return np.where(rows >= 0, column[np.maximum(rows, 0)], fallback)
