"""Read evidence while it is being written: positions in each journal, and the rows between two positions.

A *position* is `{"reads/reads-c1-000000": 1207, …}`: the number of final rows of each journal. Rules of the
file:

* The rows of a journal and of the Parquet file that it becomes are the same, in the same order and under the
  same name. So a position stays valid when a journal is sealed, and rows below it can be read again at any
  time, with the same content.
* A read is final at once. A send is final when it and all sends before it are settled. A sealed file is final
  as a whole.
* Writers are not affected: journals are read without their lock, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.evidence.journals.clients import INTENDED
from tidelog.evidence.journals.slots import SUFFIX as SLOTS_SUFFIX
from tidelog.evidence.journals.slots import CorruptSlots, Slots, slot_files
from tidelog.evidence.parquet.parts import SUFFIX, part_files
from tidelog.evidence.parquet.sealing import to_arrow
from tidelog.evidence.tables import LEDGER, READS

Position = dict[str, int]

TABLES: Final = (LEDGER.name, READS.name)
_UNSETTLED: Final = re.compile(b"[\0%c]" % INTENDED)
_NUMBER: Final = re.compile(r"-\d+$")


class Growth:
    """The journals of one folder. Final files are read once."""

    def __init__(self, evidence: Path) -> None:
        self._evidence = evidence
        self._sealed: Position = {}

    def position(self) -> Position:
        """The current position. It never goes back."""
        growing = self._growing()
        # Journals first: a journal that is sealed in between is then found among the Parquet files.
        for table in TABLES:
            for path in part_files(self._evidence / table):
                name = f"{table}/{path.name.removesuffix(SUFFIX)}"
                if name not in self._sealed:
                    with suppress(OSError, pa.ArrowException):
                        self._sealed[name] = pq.read_metadata(path).num_rows
        return dict(sorted((growing | self._sealed).items()))

    def _growing(self) -> Position:
        found: Position = {}
        for path in slot_files(self._evidence / "journal"):
            with suppress(OSError, CorruptSlots, ValueError):
                slots = Slots.watch(path)
                if slots.table in TABLES:
                    found[f"{slots.table}/{path.stem}"] = _final_rows(slots)
                slots.release()
        return found


def _final_rows(slots: Slots) -> int:
    if slots.table != LEDGER.name:
        return slots.rows()
    open_one = _UNSETTLED.search(bytes(slots.marks))
    return slots.capacity if open_one is None else open_one.start()


def rows_between(evidence: Path, name: str, start: int, end: int, columns: list[str]) -> Any:
    """These rows of a journal, as an Arrow table. Raises OSError if neither the journal nor its Parquet file
    exists."""
    table, stem = name.split("/", 1)
    try:
        slots = Slots.watch(evidence / "journal" / f"{stem}{SLOTS_SUFFIX}")
    except FileNotFoundError:
        content = pq.read_table(evidence / table / f"{stem}{SUFFIX}", columns=columns)
    else:
        content = to_arrow(slots, end).select(columns)
    return content.slice(start, end - start)


def limited(start: Mapping[str, int], end: Position, rows_max: int | None) -> Position:
    """A position between `start` and `end` with at most `rows_max` rows. Each client advances by its share,
    so that consumers of the same records stay together."""
    waiting: dict[str, int] = {}
    for name, rows in end.items():
        client = _NUMBER.sub("", name)
        waiting[client] = waiting.get(client, 0) + max(0, rows - start.get(name, 0))
    total = sum(waiting.values())
    if rows_max is None or total <= rows_max:
        return end
    left = {client: -(-rows * rows_max // total) for client, rows in waiting.items()}
    reached: Position = {}
    for name, rows in sorted(end.items()):
        client, before = _NUMBER.sub("", name), start.get(name, 0)
        taken = min(max(0, rows - before), left[client])
        left[client] -= taken
        reached[name] = before + taken
    return reached
