"""Round two, by value: sends, misses, copies and reads of one value are brought together.

Most values that come here are as they should be (a send whose outcome is not known and that did not arrive,
an acks=0 send that did); those are passed over all at once, by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.kernels.hashes import Ints, Words, flags, ints, text_hashes
from tidelog.pipeline.audit.kernels.ledger_piece import OK, value_keys
from tidelog.pipeline.audit.kernels.places import COPY, MISS, STRAY
from tidelog.pipeline.audit.kernels.round_two_rows import SEND

Row = dict[str, Any]
Place = Callable[[Ints, Ints], None]


@dataclass(slots=True)
class Group:
    """A value: its sends, what is wrong with them, its copies, and reads that the log does not confirm."""

    part: int
    value: str
    sends: list[Row]
    misses: dict[int, Row]
    copies: dict[int, Row]
    """By offset; of those where a send was acknowledged only the offset is known."""
    strays: list[Row]


def _keyed(table: Any) -> Words:
    if table is None:
        return np.zeros(0, np.uint64)
    return value_keys(ints(table["part"]), text_hashes(table["value"]))


def groups_of(tables: dict[str, Any], place: Place, *, keyed: bool) -> Iterator[Group]:
    """The values that are to be judged. ``place`` is called with the rows of sends of which there is nothing
    to say but their offsets, and these."""
    keys = {kind: _keyed(table) for kind, table in tables.items()}
    every = np.unique(np.concatenate(list(keys.values())))
    if not len(every):
        return
    index = {kind: np.searchsorted(every, mine) for kind, mine in keys.items()}
    plain = _plain_groups(tables, index, len(every), place, keyed=keyed)
    wanted = np.flatnonzero(~plain)
    if not len(wanted):
        return
    rows: dict[str, dict[int, list[Row]]] = {}
    for kind, table in tables.items():
        rows[kind] = {}
        if table is None:
            continue
        mine = np.flatnonzero(~plain[index[kind]])
        for group, row in zip(
            index[kind][mine].tolist(), table.take(pa.array(mine)).to_pylist(), strict=True
        ):
            rows[kind].setdefault(group, []).append(row)
    for number in wanted.tolist():
        sends, strays = rows[SEND].get(number, []), rows[STRAY].get(number, [])
        misses = {row["row"]: row for row in rows[MISS].get(number, [])}
        copies = {row["offset"]: row for row in rows[COPY].get(number, [])}
        some = (sends or list(copies.values()) or strays or list(misses.values()))[0]
        for send in sends:
            if send["placed"] and (send["row"] not in misses or misses[send["row"]]["changed"]):
                copies.setdefault(send["offset"], {"offset": send["offset"], "as_sent": send["row"]})
        yield Group(some["part"], some["value"], sends, misses, copies, strays)


def _plain_groups(
    tables: dict[str, Any], index: dict[str, Ints], count: int, place: Place, *, keyed: bool
) -> Any:
    """Values of which there is nothing to say, by their numbers: sent once, and absent though that is no
    loss; or there once, though it was acknowledged without an offset."""

    def counted(kind: str, chosen: Any = None) -> Ints:
        mine = index[kind] if chosen is None else index[kind][chosen]
        return np.bincount(mine, minlength=count)

    def spread(kind: str, column: Any, absent: int) -> Any:
        """A column by the numbers of values."""
        found = np.full(count, absent, column.dtype)
        found[index[kind]] = column
        return found

    send, copy = tables[SEND], tables[COPY]
    if send is None:
        return np.zeros(count, np.bool_)
    outcome, placed = ints(send["outcome"]), flags(send["placed"])
    alone = counted(SEND) == 1
    quiet = alone & (counted(MISS) == 0) & (counted(STRAY) == 0)
    copies = counted(COPY)
    absent_ones = counted(SEND, outcome != OK) == 1
    plain = quiet & (copies == 0) & absent_ones
    plain |= quiet & (copies == 0) & (counted(SEND, placed) == 1)
    if copy is not None:
        unread = counted(COPY, flags(copy["unread"]))
        unplaced = counted(SEND, (outcome == OK) & ~placed & (ints(send["offset"]) < 0)) == 1
        crc, stored = (spread(kind, ints(tables[kind]["value_crc32"]), -1) for kind in (SEND, COPY))
        key, kept = (spread(kind, text_hashes(tables[kind]["key"]), 0) for kind in (SEND, COPY))
        same = (crc < 0) | (stored < 0) | (crc == stored)
        same &= (key == kept) | ((key == 0) & (not keyed))
        there = quiet & (copies == 1) & (unread == 0) & unplaced & same
        plain |= there
        at = spread(COPY, ints(copy["offset"]), -1)
        mine = np.flatnonzero(there[index[SEND]])
        place(ints(send["row"])[mine], at[index[SEND][mine]])
    return plain
