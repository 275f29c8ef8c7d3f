"""Round one over replica logs: replicas are compared, and the log that counts is summed up by stretches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.tables import RECORDS
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import (
    Flags,
    Ints,
    Words,
    contents,
    flags,
    ints,
    spots,
    stretch_keys,
    summed,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.logs import batches_of, records_of, visible
from tidelog.pipeline.audit.kernels.replicas import COMPARED, differing, disagreements, lacking
from tidelog.pipeline.audit.kernels.tables import read_groups
from tidelog.pipeline.audit.pieces import LogPiece, RecordsPiece

SUMMED: Final = ("offset", "control", "transactional", "value_id", "value_crc32", "key_text")
LOG_COLUMNS: Final = (*SUMMED, "leader_epoch", "producer_id", "producer_epoch")
_OF_RECORDS: Final = {
    "offset": "offset",
    "leader_epoch": "leader_epoch",
    "control": "control",
    "value": "value_id",
    "value_crc32": "value_crc32",
    "key": "key_text",
}

Sums = tuple[Ints, Ints, Words, Ints, Words]
"""Stretches; records and their sum; records with a value and their sum."""


@dataclass(slots=True)
class LogResult:
    sums: Sums | None = None
    records: dict[int, int] = field(default_factory=dict)
    """How many each broker holds."""
    problems: list[tuple[int, int, int | None, str]] = field(default_factory=list)
    """Partition, broker, base offset and words."""
    tally: Tally = field(default_factory=Tally)


def judge_log(context: Context, piece: LogPiece | RecordsPiece) -> LogResult:
    if isinstance(piece, RecordsPiece):
        return _judge_records(context, piece)
    part = context.parts[piece.part]
    result = LogResult()
    batches = {
        broker: batches_of(context.place, files, piece.low, piece.high)
        for broker, files in piece.files.items()
    }
    for broker, found in batches.items():
        result.records[broker] = found.records
        result.problems += [(part.number, broker, at, words) for at, words in found.problems]
    writer = FindingWriter(context, f"log-{piece.number:06}")
    ranges = differing(batches, part)
    for offsets in ranges:
        _compare(context, piece, offsets, writer)
    result.tally = writer.close()
    if part.broker is not None and part.broker in piece.files:
        table = final_rows(context, piece, SUMMED)
        if table is not None:
            result.sums = log_sums(context, table)
    return result


def _compare(context: Context, piece: LogPiece, offsets: range, writer: FindingWriter) -> None:
    part = context.parts[piece.part]
    tables, brokers, held = [], [], {}
    for broker, files in piece.files.items():
        table = records_of(context.place, files, (*COMPARED, "headers"), offsets.start, offsets.stop)
        if table is None:
            held[broker] = np.zeros(0, np.int64)
            continue
        held[broker] = ints(table["offset"])
        tables.append(table)
        brokers.append(np.full(len(table), broker, np.int64))
    if not tables:
        return
    together = pa.concat_tables(tables)
    whose = np.concatenate(brokers)
    number = np.full(len(together), part.number, np.int64)
    writer.add_all(disagreements(context.parts, number, whose, together))
    writer.add_all(lacking(part, held, offsets.start, offsets.stop))


def final_rows(context: Context, piece: LogPiece, columns: tuple[str, ...], span: range | None = None) -> Any:
    """The log that counts, as far as it lies in the piece (and in the span): with `part` and `visible`. What
    lies behind the committed end is not visible."""
    part = context.parts[piece.part]
    assert part.broker is not None
    low, high = max(piece.low, part.start), min(piece.high, part.behind_end)
    if span is not None:
        low, high = max(low, span.start), min(high, span.stop)
    if low >= high:
        return None
    table = records_of(context.place, piece.files[part.broker], columns, low, high)
    if table is None:
        return None
    shown = visible(context.place, part.replicas[part.broker].files, piece, table)
    shown &= ints(table["offset"]) < part.end
    number = pa.array(np.full(len(table), part.number, np.int64))
    return table.append_column("part", number).append_column("visible", pa.array(shown))


def log_sums(context: Context, table: Any) -> Sums:
    """Of what consumers see."""
    shown: Flags = flags(table["visible"])
    part, offset = ints(table["part"])[shown], ints(table["offset"])[shown]
    values = text_hashes(table["value_id"])[shown]
    content = contents(
        spots(offset, values), ints(table["value_crc32"])[shown], text_hashes(table["key_text"])[shown]
    )
    keys = stretch_keys(part, offset)
    valued = values != 0
    found, counts, sums, with_value, of_values = summed(
        keys, content, valued.astype(np.uint64), np.where(valued, content, np.uint64(0))
    )
    return found, counts, sums, with_value.astype(np.int64), of_values


# ---------------------------------------------------------------- the simulator's records


def _judge_records(context: Context, piece: RecordsPiece) -> LogResult:
    result = LogResult()
    table, part, broker = simulated(context, piece)
    if table is None:
        return result
    for each, count in zip(*np.unique(broker, return_counts=True), strict=True):
        result.records[int(each)] = int(count)
    writer = FindingWriter(context, f"log-{piece.number:06}")
    writer.add_all(disagreements(context.parts, part, broker, table))
    offsets = ints(table["offset"])
    order = np.lexsort((offsets, broker, part))
    bounds = np.searchsorted(part[order], np.arange(len(context.parts) + 1))
    for number in sorted(piece.parts):
        mine = order[bounds[number] : bounds[number + 1]]
        brokers = broker[mine]
        held = {
            each: offsets[mine[np.searchsorted(brokers, each) : np.searchsorted(brokers, each, "right")]]
            for each in context.parts[number].replicas
        }
        if len({len(found) for found in held.values()}) > 1 or any(
            len(found) and int(found[-1] - found[0]) + 1 != len(found) for found in held.values()
        ):
            writer.add_all(lacking(context.parts[number], held, 0, 1 << 62))
    result.tally = writer.close()
    final = final_records(context, table, part, broker)
    if final.num_rows:
        result.sums = log_sums(context, final)
    return result


def simulated(context: Context, piece: RecordsPiece) -> tuple[Any, Ints, Ints]:
    """All records of the piece's partitions, with their partition and broker."""
    tables = []
    for name in piece.files:
        tables.append(
            read_groups(context.place, name, RECORDS.name, ["topic", "partition", "broker", *_OF_RECORDS])
        )
    together = pa.concat_tables(tables, promote_options="permissive") if tables else None
    if together is None or not together.num_rows:
        return None, np.zeros(0, np.int64), np.zeros(0, np.int64)
    together = together.unify_dictionaries()
    part = context.numbers(together)
    if len(piece.parts) < len(context.parts):
        mine = np.isin(part, sorted(piece.parts))
        together, part = together.filter(pa.array(mine)), part[mine]
    broker = ints(together["broker"])
    table = together.select(list(_OF_RECORDS)).rename_columns(list(_OF_RECORDS.values()))
    table = table.set_column(2, "control", pc.fill_null(table["control"], False))
    return table, part, broker


def final_records(context: Context, table: Any, part: Ints, broker: Ints) -> Any:
    """Those of the logs that count, sorted, with `part` and `visible`."""
    chosen = np.array([-2 if each.broker is None else each.broker for each in context.parts] + [-2])
    behind = np.array([each.behind_end for each in context.parts] + [-1])
    starts, ends = context.limits()
    offsets = ints(table["offset"])
    mine = np.flatnonzero((broker == chosen[part]) & (offsets >= starts[part]) & (offsets < behind[part]))
    mine = mine[np.lexsort((offsets[mine], part[mine]))]
    found = table.take(pa.array(mine))
    shown = ~flags(found["control"]) & (offsets[mine] < ends[part[mine]])
    found = found.append_column("part", pa.array(part[mine])).append_column("visible", pa.array(shown))
    for name, kind in (
        ("transactional", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
    ):
        found = found.append_column(name, pa.nulls(len(found), kind))
    return found
