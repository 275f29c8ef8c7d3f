"""Segment files of a piece: batches by their headers, and records, decoded where they are needed.

Rules of the file:

* A file that cannot be opened is a problem with its words, like a damaged batch in it.
* Records are those that consumers of committed data see: what a transaction wrote that was aborted, or never
  ended, is there and not *visible*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.ledger.identity import record_name
from tidelog.pipeline.audit.kernels.hashes import Flags, Ints, Words, combined, flags, ints
from tidelog.pipeline.audit.pieces import BEHIND_ALL, LogPiece
from tidelog.pipeline.files import Place
from tidelog.pipeline.segments.batches import misplaced
from tidelog.pipeline.segments.decoding import crcs_of, headers_of
from tidelog.pipeline.segments.index import narrowed
from tidelog.pipeline.segments.reader import read_piece
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.segments.scan import Chunk, Problem, scan
from tidelog.wire.batch import TIMESTAMP_TYPE_BIT

CRC_WRONG: Final = "the CRC of the batch does not match"
_MISPLACED: Final = "the offsets of the batch do not fit those around it"
_ABORT: Final = 0
_MARKER_BYTES: Final = 4
_STEP: Final = 1 << 16
_STEPS_MAX: Final = 64


class Damage(NamedTuple):
    """A place of a segment file that cannot be read."""

    base: int | None
    """Which offset is there: where the batch before ends, or what a header there claims if that can be."""
    words: str
    torn: bool = False
    """The file ends inside of what begins here."""


@dataclass(slots=True)
class Batches:
    """The batches of one replica that begin in a range of offsets, as columns."""

    base: Ints
    behind: Ints
    content: Words
    """A hash of everything in the batch."""
    newest_ms: Ints
    """When its newest record was made, by its producer's clock; -1: by a broker's."""
    records: int = 0
    problems: list[Damage] = field(default_factory=list)

    def unreadable(self) -> list[range]:
        """The offsets of the damaged places: from the sound batch before each to the next one."""
        found = []
        for damage in self.problems:
            at = 0 if damage.base is None else damage.base
            behind, base = self.behind[self.behind <= at], self.base[self.base >= at]
            found.append(range(int(behind.max(initial=0)), int(base.min(initial=BEHIND_ALL))))
        return found


def batches_of(place: Place, files: Sequence[tuple[int, str]], low: int, high: int) -> Batches:
    """Every batch's CRC is checked; nothing is decoded."""
    looking = _Scanning(low, high)
    for base, name in files:
        try:
            with place.open(name) as source:
                part = narrowed(SegmentFile(place, name), source, range(low, high))
                size = source.size() if part.end is None else part.end
                looking.begin(base)
                for found in scan(source, part.start, size):
                    if isinstance(found, Problem):
                        looking.problem(found)
                    else:
                        looking.chunk(found)
        except OSError as error:
            looking.problems.append(Damage(None, f"{name} cannot be read: {error.strerror or error}"))
    return looking.batches()


class _Scanning:
    """The batches of segment files, one file after the other."""

    def __init__(self, low: int, high: int) -> None:
        self.problems: list[Damage] = []
        self._low, self._high = low, high
        self._base = self._expected = 0
        self._any = self._last_is_wrong = False
        self._columns: list[tuple[Ints, Ints, Words, Ints]] = []
        self._records = 0

    def begin(self, base: int) -> None:
        """A file, by the offset in its name."""
        self._base = self._expected = base
        self._any = self._last_is_wrong = False

    def chunk(self, chunk: Chunk) -> None:
        headers = headers_of(chunk)
        first, behind = headers["base_offset"], headers.next_offsets
        sound = crcs_of(chunk) == headers["crc"]
        expected = self._expected if self._any else max(self._base, self._low)
        wrong, self._expected = misplaced(first[sound], behind[sound], self._expected)
        crc_wrong = ~sound
        sound[np.flatnonzero(sound)[wrong]] = False
        for at in np.flatnonzero(~sound).tolist():
            before = int(behind[:at][sound[:at]].max(initial=expected))
            after = int(first[at:][sound[at:]].min(initial=BEHIND_ALL))
            claimed = int(first[at])
            can_be = before <= claimed < after if crc_wrong[at] else self._base <= claimed < before
            self._note(Damage(claimed if can_be else before, CRC_WRONG if crc_wrong[at] else _MISPLACED))
        self._last_is_wrong, self._any = bool(crc_wrong[-1]), True
        kept = sound & (first >= self._low) & (first < self._high)
        content = combined(first, headers["crc"], headers["leader_epoch"], headers["length"])
        by_broker = headers["attributes"] & TIMESTAMP_TYPE_BIT != 0
        newest = np.where(by_broker, -1, headers["max_timestamp"]).astype(np.int64)
        self._columns.append((first[kept], behind[kept], content[kept], newest[kept]))
        self._records += int(headers["record_count"][kept].clip(0).sum())

    def problem(self, found: Problem) -> None:
        """A batch with a wrong CRC and what is no batch behind it are one: its length was wrong, too."""
        if found.base_offset is None or found.torn:
            base = found.base_offset
            if self._last_is_wrong:
                base = self.problems.pop().base
            elif base is None and self._any:
                base = self._expected
            self.problems.append(Damage(base, found.words, found.torn))
        else:
            self._note(Damage(found.base_offset, found.words))

    def _note(self, damage: Damage) -> None:
        if damage.base is None or self._low <= damage.base < self._high:
            self.problems.append(damage)

    def batches(self) -> Batches:
        nothing = np.zeros(0, np.int64)
        empty = (nothing, nothing, np.zeros(0, np.uint64), nothing)
        base, behind, content, newest = map(np.concatenate, zip(empty, *self._columns, strict=True))
        return Batches(base, behind, content, newest, self._records, self.problems)


def records_of(
    place: Place,
    files: Sequence[tuple[int, str]],
    columns: Sequence[str],
    low: int,
    high: int,
    *,
    kept: bool = False,
) -> Any:
    """The records of these offsets that can be read, as one Arrow table, by the reader of `tidelog_log`. What
    cannot be read is a problem of `batches_of`. `kept`: values are named as in a ledger that applications
    keep."""
    named = kept and "value_id" in columns
    more = ("offset", "problem", *(("value", "headers") if named else ()))
    wanted = [*columns, *(name for name in more if name not in columns)]
    segments = [SegmentFile(place, name) for _, name in files]
    batches = list(read_piece(segments, wanted, range(low, high)))
    if not batches:
        return None
    found = pa.Table.from_batches(batches)
    offsets = found["offset"]
    inside = pc.and_(pc.greater_equal(offsets, low), pc.less(offsets, high))
    found = found.filter(pc.and_(pc.is_null(found["problem"]), pc.fill_null(inside, False)))
    if named:
        names = pa.array(_ledger_names(found), pa.string())
        found = found.set_column(found.column_names.index("value_id"), "value_id", names)
        if "value_crc32" in columns:  # names have it, see `ledger.identity`
            unknown = pa.nulls(len(found), pa.int64())
            found = found.set_column(found.column_names.index("value_crc32"), "value_crc32", unknown)
    return found.select(list(columns))


def _ledger_names(records: Any) -> Iterator[str | None]:
    """One by one: a ledger that applications keep is small beside the evidence of a trial."""
    headers, values = records["headers"].to_pylist(), records["value"].to_pylist()
    for listed, value in zip(headers, values, strict=True):
        yield record_name([(each["key"], each["value"]) for each in listed or ()], value)


# ---------------------------------------------------------------- what consumers see

VISIBLE_COLUMNS: Final = ("offset", "control", "transactional", "producer_id", "key")


def visible(place: Place, files: Sequence[tuple[int, str]], piece: LogPiece, table: Any) -> Flags:
    """Which records consumers of committed data see; markers of transactions are none of them. `table` has
    `control` and `transactional`, and is sorted by offset; `files` are all of the replica."""
    shown = ~flags(table["control"])
    in_doubt = flags(table["transactional"]) & shown
    if not in_doubt.any():
        return shown
    offsets = ints(table["offset"])
    rows = records_of(place, files, VISIBLE_COLUMNS, piece.low, piece.high)
    producers = dict(zip(ints(rows["offset"]).tolist(), ints(rows["producer_id"]).tolist(), strict=True))
    markers = _markers(rows)
    open_ones = {producers[offset] for offset in offsets[in_doubt].tolist()}
    for more in _read_on(place, files, piece.high):
        if all(any(at >= piece.high for at, _ in markers.get(p, ())) for p in open_ones):
            break
        for producer, found in _markers(more).items():
            markers.setdefault(producer, []).extend(found)
    for row in np.flatnonzero(in_doubt).tolist():
        offset = int(offsets[row])
        ending = next((kind for at, kind in markers.get(producers[offset], ()) if at > offset), _ABORT)
        shown[row] = ending != _ABORT
    return shown


def _markers(rows: Any) -> dict[int, list[tuple[int, int]]]:
    """Producer → offset and kind of each marker, in order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows.filter(rows["control"]).to_pylist():
        key = row["key"] or b""
        if len(key) >= _MARKER_BYTES:
            kind = int.from_bytes(key[2:4], "big")
            found.setdefault(row["producer_id"], []).append((row["offset"], kind))
    return found


def _read_on(place: Place, files: Sequence[tuple[int, str]], high: int) -> Iterator[Any]:
    """What follows the piece, until it is known how its transactions ended."""
    behind = [base for base, _ in files[1:]] + [BEHIND_ALL]
    for low in range(high, high + _STEPS_MAX * _STEP, _STEP) if high < BEHIND_ALL else ():
        near = [file for file, end in zip(files, behind, strict=True) if file[0] < low + _STEP and end > low]
        rows = records_of(place, near, VISIBLE_COLUMNS, low, low + _STEP)
        if rows is None:
            return
        yield rows
