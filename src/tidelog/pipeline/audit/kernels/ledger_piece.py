"""Round one over a file of the ledger: totals, sums of what was acknowledged, order, silence, clocks, and
acknowledgements with too few copies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Axis, Context
from tidelog.pipeline.audit.findings import Finding, FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import (
    Flags,
    Ints,
    Words,
    coded,
    combined,
    contents,
    flags,
    ints,
    runs_of,
    spots,
    stretch_keys,
    summed,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.promises import Bounds, Judged, below_promise, clock_bounds
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import TablePiece

OK, FAILED, UNKNOWN = 0, 1, 2
_OUTCOMES: Final = {"ok": OK, "failed": FAILED, "unknown": UNKNOWN}
COLUMNS: Final = (
    *("producer", "sequence", "topic", "partition", "key", "value", "value_crc32", "acks", "idempotent"),
    *("sent_us", "settled_us", "outcome", "offset"),
)
_SECOND_US: Final = 1_000_000


@dataclass(slots=True)
class Sends:
    """The columns of a piece that every question needs, as numbers."""

    table: Any
    part: Ints
    offset: Ints
    outcome: Ints
    value: Words
    producer: Ints
    producers: list[str | None]
    sequence: Ints
    acks: Ints
    idempotent: Flags
    sent: Ints
    settled: Ints
    known: Flags
    """Whether it has a value, and its partition a final log."""
    placed: Flags
    """Whether it was acknowledged with an offset that is committed."""

    def finding(self, row: int, anomaly: str, severity: str, offset: int, **more: Any) -> Finding:
        """Of one of them."""
        return Finding(
            anomaly,
            severity,
            int(self.part[row]),
            offset,
            value=self.table["value"][row].as_py(),
            producer=self.producers[int(self.producer[row])],
            sequence=int(self.sequence[row]),
            acks=int(self.acks[row]),
            time_us=int(self.sent[row]),
            until_us=None if self.settled[row] < 0 else int(self.settled[row]),
            **more,
        )


@dataclass(slots=True)
class LedgerResult:
    rows: int = 0
    totals: Counter[tuple[str | None, int, bool, int]] = field(default_factory=Counter)
    lasts: dict[str | None, int] = field(default_factory=dict)
    numbers: Counter[tuple[str | None, int]] = field(default_factory=Counter)
    """Of each producer the sum of its numbers, and that of their squares, by their power."""
    transactional: int = 0
    unnamed: int = 0
    unplaced: set[tuple[str | None, int]] = field(default_factory=set)
    """Partitions that were written to and of which nothing shows what they hold."""
    unplaced_promises: int = 0
    """Records that were acknowledged there."""
    acknowledged: set[int] = field(default_factory=set)
    sums: tuple[Any, ...] = ()
    """Stretches; sends that were acknowledged there, and their sum."""
    beyond: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Stretches of offsets that were acknowledged and are not committed."""
    doubles: Words | None = None
    """Of values whose form does not show that each was sent once: their hashes."""
    candidates: Words = field(default_factory=lambda: np.zeros(0, np.uint64))
    """Hashes of the values of sends without a committed offset."""
    inversions: int = 0
    edges: tuple[Any, ...] = ()
    seconds: tuple[Any, ...] = ()
    keys: tuple[Any, ...] | None = None
    clocks: dict[int, Bounds] = field(default_factory=dict)
    judged: Judged = field(default_factory=Judged)
    load: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """Sends by moment, acks and outcome."""
    settled: Counter[tuple[int, int]] = field(default_factory=Counter)
    waits: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """How long sends waited: by moment, acks, and three digits of a time in us."""
    slowest: int = -1
    tally: Tally = field(default_factory=Tally)


def sends_of(context: Context, table: Any) -> Sends:
    outcome_codes, outcomes = coded(table["outcome"])
    outcome = np.array([_OUTCOMES.get(name or "", UNKNOWN) for name in outcomes], np.int64)[outcome_codes]
    if "transaction" in table.column_names and context.committed:
        codes, names = coded(table["transaction"])
        seen = np.array([name in context.committed for name in names], np.bool_)[codes]
        outcome = np.where(seen & (outcome == UNKNOWN), OK, outcome)
    part, offset = context.numbers(table), ints(table["offset"])
    starts, ends = context.limits()
    value = text_hashes(table["value"])
    producer, producers = coded(table["producer"])
    known = (part >= 0) & (value != 0) & (ends[part] >= 0)
    placed = known & (outcome == OK) & (offset >= starts[part]) & (offset < ends[part])
    return Sends(
        table,
        part,
        offset,
        outcome,
        value,
        producer,
        producers,
        ints(table["sequence"]),
        ints(table["acks"], 0),
        flags(table["idempotent"]),
        ints(table["sent_us"]),
        ints(table["settled_us"]),
        known,
        placed,
    )


def value_keys(part: Ints, value: Words) -> Words:
    """A value of a partition as one number."""
    return combined(part, value)


def judge_ledger(context: Context, piece: TablePiece) -> LedgerResult:
    columns = (*COLUMNS, "transaction") if piece.transactional else COLUMNS
    table = read_piece(context.place, piece, columns)
    sends = sends_of(context, table)
    result = LedgerResult(rows=len(table))
    _count(context, result, sends)
    if piece.transactional:
        result.transactional = len(table) - table["transaction"].null_count
    _sum_up(context, result, sends)
    result.inversions, result.edges = order_of(sends, _line(sends), piece.number)
    _silence(result, sends)
    _remember_keys(context, result, sends)
    _draw(context, result, sends)
    writer = FindingWriter(context, f"ledger-{piece.number:06}")
    result.clocks = clock_bounds(context, sends)
    found, result.judged = below_promise(context, sends)
    writer.add_all(found)
    result.tally = writer.close()
    return result


def _count(context: Context, result: LedgerResult, sends: Sends) -> None:
    _, ends = context.limits()
    if (unknown := np.flatnonzero(ends[sends.part] < 0)).size:
        topics, names = coded(sends.table["topic"])
        pairs = np.stack((topics[unknown], ints(sends.table["partition"])[unknown]))
        result.unplaced = {
            (names[topic], partition) for topic, partition in np.unique(pairs, axis=1).T.tolist()
        }
        promised = (sends.outcome[unknown] == OK) & (sends.acks[unknown] != 0)
        result.unplaced_promises = int(np.count_nonzero(promised))
    key = ((sends.producer * 8 + sends.acks + 1) * 2 + sends.idempotent) * 3 + sends.outcome
    for each, count in zip(*np.unique(key, return_counts=True), strict=True):
        number = int(each)
        name = sends.producers[number // 48]
        result.totals[name, number // 6 % 8 - 1, bool(number // 3 % 2), number % 3] = int(count)
    for code in np.unique(sends.producer).tolist():
        name, numbers = sends.producers[code], sends.sequence[sends.producer == code]
        result.lasts[name] = int(numbers.max())
        for power in (1, 2):
            result.numbers[name, power] = int((numbers.astype(np.uint64) ** np.uint64(power)).sum())
    result.unnamed = int((sends.value == 0).sum())
    result.acknowledged = set(np.unique(sends.part[(sends.outcome == OK) & (sends.acks != 0)]).tolist()) - {
        -1
    }


def _sum_up(context: Context, result: LedgerResult, sends: Sends) -> None:
    placed = sends.placed
    offset = sends.offset[placed]
    crc, key = ints(sends.table["value_crc32"]), context.key_hashes(sends.table["key"])
    content = contents(spots(offset, sends.value[placed]), crc[placed], key[placed])
    result.sums = summed(stretch_keys(sends.part[placed], offset), content)
    elsewhere = sends.known & ~placed
    result.candidates = np.unique(value_keys(sends.part[elsewhere], sends.value[elsewhere]))
    starts, _ = context.limits()
    beyond = elsewhere & (sends.outcome == OK) & (sends.offset >= starts[sends.part])
    result.beyond = np.unique(stretch_keys(sends.part[beyond], sends.offset[beyond]))
    named = pc.binary_join_element_wise(
        sends.table["producer"].cast(pa.string()), sends.table["sequence"].cast(pa.string()), "-"
    )
    if (text_hashes(named) != sends.value)[sends.known].any():
        result.doubles = value_keys(sends.part[sends.known], sends.value[sends.known])


def values_sent(shared: tuple[Context, frozenset[str | None]], piece: TablePiece) -> Words:
    """The values of some producers."""
    context, producers = shared
    table = read_piece(context.place, piece, ("producer", "topic", "partition", "value"))
    codes, names = coded(table["producer"])
    part, value = context.numbers(table), text_hashes(table["value"])
    mine = np.array([name in producers for name in names])[codes] & (part >= 0) & (value != 0)
    return value_keys(part[mine], value[mine])


# ---------------------------------------------------------------- order


def _line(sends: Sends) -> tuple[Ints, Ints]:
    """Rows of acknowledged sends, and the offsets that were acknowledged."""
    rows = np.flatnonzero(sends.placed)
    return rows, sends.offset[rows]


def order_of(sends: Sends, line: tuple[Ints, Ints], number: int) -> tuple[int, tuple[Any, ...]]:
    """How many are before the one that their producer sent before them, and the ends of each lane."""
    rows, offset = line
    lane = (sends.part[rows] << 32) | sends.producer[rows]
    order = np.lexsort((sends.sequence[rows], lane))
    rows, offset, lane = rows[order], offset[order], lane[order]
    first, last = runs_of(lane)
    if not len(first):
        return 0, ()
    late = (lane[1:] == lane[:-1]) & (offset[1:] < offset[:-1])
    a, z = rows[first], rows[last]
    names = [sends.producers[code] for code in sends.producer[a].tolist()]
    edges = (
        np.full(len(a), number),
        sends.part[a],
        names,
        sends.sequence[a],
        offset[first],
        a,
        sends.sequence[z],
        offset[last],
        sends.settled[z],
    )
    return int(late.sum()), edges


# ---------------------------------------------------------------- time


def _silence(result: LedgerResult, sends: Sends) -> None:
    """The first and the last acknowledgement of each second, and since when the first had waited."""
    rows = np.flatnonzero(
        (sends.part >= 0) & (sends.outcome == OK) & (sends.acks != 0) & (sends.settled >= 0)
    )
    key = (sends.part[rows] << 40) | (sends.settled[rows] // _SECOND_US)
    order = np.lexsort((sends.sent[rows], sends.settled[rows], key))
    rows, key = rows[order], key[order]
    first, last = runs_of(key)
    result.seconds = (
        key[first],
        sends.settled[rows[first]],
        sends.settled[rows[last]],
        sends.sent[rows[first]],
    )


def _remember_keys(context: Context, result: LedgerResult, sends: Sends) -> None:
    """Of compacted topics: where each key was written last, as far as it is known."""
    compacted = np.array([*(part.compacted for part in context.parts), False])
    mine = compacted[sends.part]
    if not mine.any():
        return
    key = text_hashes(sends.table["key"])
    mine &= key != 0
    keys = combined(sends.part[mine], key[mine])
    # A send whose outcome is not known, or whose offset is not, may have been the last.
    written = np.where(sends.outcome == OK, sends.offset, np.where(sends.outcome == UNKNOWN, -1, -2))[mine]
    place = np.where(written == -1, 1 << 62, written)
    order = np.lexsort((place, keys))
    keys, place = keys[order], place[order]
    first, last = runs_of(keys)
    result.keys = (keys[first], place[last])


def _draw(context: Context, result: LedgerResult, sends: Sends) -> None:
    """What the report's timeline shows of sends."""
    axis = context.axis
    at = axis.at(sends.sent)
    result.load.update(_counted(axis, at, sends.acks, sends.outcome))
    ok = (sends.outcome == OK) & (sends.settled >= 0)
    settled = np.flatnonzero(ok)
    counts = _counted(axis, axis.at(sends.settled[settled]), sends.acks[settled], np.zeros_like(settled))
    result.settled.update({(moment, acks): count for (moment, acks, _), count in counts.items()})
    waited = np.flatnonzero(ok & (sends.acks != 0))
    waits = np.maximum(sends.settled[waited] - sends.sent[waited], 0)
    if len(waits):
        result.slowest = int(waits.max())
    result.waits.update(_counted(axis, at[waited], sends.acks[waited], _three_digits(waits)))


def _three_digits(times: Ints) -> Ints:
    scale = 10 ** np.maximum(np.floor(np.log10(np.maximum(times, 1))).astype(np.int64) - 2, 0)
    rounded: Ints = np.round(times / scale).astype(np.int64) * scale
    return rounded


def _counted(axis: Axis, at: Ints, acks: Ints, third: Ints) -> dict[tuple[int, int, int], int]:
    """How many rows there are of each moment, acks and third column. They are counted as one number each,
    which is much faster than as rows."""
    bits = 40
    keys, counts = np.unique((((at // axis.bucket_ms) * 4 + acks + 1) << bits) | third, return_counts=True)
    return {
        ((key >> bits) // 4 * axis.bucket_ms, (key >> bits) % 4 - 1, key & ((1 << bits) - 1)): count
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
    }
