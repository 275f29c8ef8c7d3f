"""Turn journals into tables: at the end of every trial, and after a killed one.

The work can be interrupted and repeated: a journal is removed only when its rows are in a table, under a name
that follows from the journal's. Unreadable journals stay in place and are listed in `trial.json` as missing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.evidence.folder import EvidenceFolder
from tidelog.evidence.journals.event_files import CorruptEvidence, EventFile, event_files, read_events
from tidelog.evidence.journals.lines import line_files, read_lines
from tidelog.evidence.journals.slots import CorruptSlots, Slots, StillWritten, slot_files
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.parquet.sealing import seal
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, TABLES, Table

_IN_TWO_LINES: Final = (FAULTS, LEDGER)
"""Tables whose rows are written when they begin, and completed when they end."""


@dataclass(slots=True)
class Sealed:
    """How many journals were sealed, and why others were not."""

    journals: int = 0
    trouble: dict[str, str] = field(default_factory=dict)


def seal_journals(folder: EvidenceFolder) -> Sealed:
    """Seal all journals of a trial."""
    done = Sealed()
    for path in slot_files(folder.journal):
        _attempt(folder, done, path, partial(_seal_slots, path, folder.path))
    for path in line_files(folder.journal):
        _attempt(folder, done, path, partial(_seal_lines, path, folder.path))
    for file in event_files(folder.events_journal) if folder.events_journal.is_dir() else []:
        _attempt(folder, done, file.path, partial(_seal_events, file, folder.path))
    for empty in (folder.events_journal, folder.journal):
        with suppress(OSError):
            empty.rmdir()
    return done


def _attempt(folder: EvidenceFolder, done: Sealed, path: Path, work: Callable[[], None]) -> None:
    name = str(path.relative_to(folder.path))
    try:
        work()
    except (CorruptSlots, StillWritten, CorruptEvidence, ValueError, pa.ArrowException) as error:
        done.trouble[name] = str(error)
    except OSError as error:
        done.trouble[name] = f"{name}: {reason(error)}"
    else:
        done.journals += 1
        return
    folder.manifest.lacks(f"the rows of {name}", done.trouble[name])


def _seal_slots(path: Path, evidence: Path) -> None:
    slots = Slots.open(path)
    seal(slots, evidence)


def _seal_lines(path: Path, evidence: Path) -> None:
    table = _table_of(path)
    rows = list(read_lines(path))
    writer = PartWriter(evidence / table.name, table, path.stem, seconds_max=float("inf"))
    for row in _merged(rows, table) if table in _IN_TWO_LINES else rows:
        writer.write(row)
    writer.close()
    path.unlink()


def _table_of(path: Path) -> Table:
    for table in TABLES:
        if path.stem.partition("-")[0] == table.name:
            return table
    raise ValueError(f"{path} belongs to no table")


def _merged(rows: list[Row], table: Table) -> list[Row]:
    """Merge the lines of a fault, its beginning and its end, into one row; and those of a send."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in table.identity), {}).update(row)
    return [found[identity] for identity in sorted(found)]


def _seal_events(file: EventFile, evidence: Path) -> None:
    writer = PartWriter(evidence / EVENTS.name, EVENTS, file.path.stem, seconds_max=float("inf"))
    try:
        for row in read_events(file.path):
            writer.write(row)
    finally:
        writer.close()
    file.path.unlink()
