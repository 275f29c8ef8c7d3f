"""Round one over replica logs: replicas are compared, and the log that counts is summed up by stretches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.tables import RECORDS
from tidelog.pipeline.audit.causes.history import NOTHING
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import (
    Flags,
    Ints,
    contents,
    flags,
    ints,
    log_sums,
    spots,
    stretch_keys,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.logs import Batches, Damage, batches_of, records_of, visible
from tidelog.pipeline.audit.kernels.replicas import COMPARED, differing, disagreements, lacking
from tidelog.pipeline.audit.kernels.tables import read_groups
from tidelog.pipeline.audit.partitions import Part
from tidelog.pipeline.audit.pieces import EVERYWHERE, LogPiece, RecordsPiece

SUMMED: Final = (
    *("offset", "control", "transactional", "value_id", "value_crc32", "key_text"),
    *("leader_epoch", "timestamp_ms"),
)
LOG_COLUMNS: Final = (*SUMMED, "producer_id", "producer_epoch")
_OF_RECORDS: Final = {
    "offset": "offset",
    "leader_epoch": "leader_epoch",
    "control": "control",
    "value": "value_id",
    "value_crc32": "value_crc32",
    "key": "key_text",
}


class ReplicaDamage(NamedTuple):
    part: int
    broker: int
    damage: Damage

    @property
    def order(self) -> tuple[int, int, int, str]:
        """By place: partition, broker, offset."""
        return self.part, self.broker, self.damage.base or -1, self.damage.words


@dataclass(slots=True)
class LogResult:
    sums: tuple[Any, ...] | None = None
    """As `log_sums` makes them."""
    records: dict[int, int] = field(default_factory=dict)
    """How many each broker holds."""
    problems: list[ReplicaDamage] = field(default_factory=list)
    newest: dict[tuple[int, int], int] = field(default_factory=dict)
    """Partition and place → when the newest record of this piece below it was made."""
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
        result.problems += [ReplicaDamage(part.number, broker, damage) for damage in found.problems]
    writer = FindingWriter(context, f"log-{piece.number:06}")
    ranges = differing(batches, part)
    unreadable = {broker: found.unreadable() for broker, found in batches.items()}
    for offsets in ranges:
        _compare(context, piece, offsets, unreadable, writer)
    result.tally = writer.close()
    if part.broker in batches and not context.kept:
        result.newest = _newest(context, part, batches[part.broker])
    table = final_rows(context, piece, SUMMED)
    if table is not None:
        result.sums = sums_of(context, table)
    return result


def _newest(context: Context, part: Part, batches: Batches) -> dict[tuple[int, int], int]:
    """At the places where the log was cut, and at its end."""
    places = context.histories.get(part.number, NOTHING).places() | {part.end}
    found = {}
    for place in places:
        below = batches.newest_ms[batches.behind <= place]
        if len(below) and (made_ms := int(below.max())) >= 0:
            found[part.number, place] = made_ms * 1000
    return found


def _compare(
    context: Context,
    piece: LogPiece,
    offsets: range,
    unreadable: Mapping[int, Sequence[range]],
    writer: FindingWriter,
) -> None:
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
    writer.add_all(lacking(part, held, offsets, unreadable))


def final_rows(
    context: Context, piece: LogPiece | RecordsPiece, columns: Sequence[str], span: range = EVERYWHERE
) -> Any:
    """The log that counts, as far as it lies in the piece and in the span, sorted, with `part` and `visible`;
    None: there is nothing of it. What lies behind the committed end is not visible."""
    if isinstance(piece, RecordsPiece):
        table, number, broker = simulated(context, piece)
        return None if table is None else _final_records(context, table, number, broker, span)
    part = context.parts[piece.part]
    low, high = max(piece.low, part.start, span.start), min(piece.high, part.behind_end, span.stop)
    if part.broker is None or part.broker not in piece.files or low >= high:
        return None
    table = records_of(context.place, piece.files[part.broker], columns, low, high, kept=context.kept)
    if table is None:
        return None
    shown = visible(context.place, part.replicas[part.broker].files, piece, table)
    shown &= ints(table["offset"]) < part.end
    number = pa.array(np.full(len(table), part.number, np.int64))
    return table.append_column("part", number).append_column("visible", pa.array(shown))


def sums_of(context: Context, table: Any) -> tuple[Any, ...]:
    """Of what consumers see."""
    shown: Flags = flags(table["visible"])
    offset, values = ints(table["offset"]), text_hashes(table["value_id"])
    key = context.key_hashes(table["key_text"])
    content = contents(spots(offset, values), ints(table["value_crc32"]), key)
    stretches, as_read = stretch_keys(ints(table["part"]), offset), context.as_read(content, table)
    return log_sums(stretches[shown], as_read[shown], content[shown], values[shown] != 0)


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
            writer.add_all(lacking(context.parts[number], held))
    result.tally = writer.close()
    final = _final_records(context, table, part, broker)
    if final.num_rows:
        result.sums = sums_of(context, final)
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


def _final_records(context: Context, table: Any, part: Ints, broker: Ints, span: range = EVERYWHERE) -> Any:
    """Those of the logs that count."""
    chosen = np.array([-2 if each.broker is None else each.broker for each in context.parts] + [-2])
    behind = np.array([each.behind_end for each in context.parts] + [-1])
    starts, ends = context.limits()
    offsets = ints(table["offset"])
    inside = (offsets >= np.maximum(starts, span.start)[part]) & (
        offsets < np.minimum(behind, span.stop)[part]
    )
    mine = np.flatnonzero((broker == chosen[part]) & inside)
    mine = mine[np.lexsort((offsets[mine], part[mine]))]
    found = table.take(pa.array(mine))
    shown = ~flags(found["control"]) & (offsets[mine] < ends[part[mine]])
    found = found.append_column("part", pa.array(part[mine])).append_column("visible", pa.array(shown))
    for name, kind in (
        ("transactional", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),
    ):
        found = found.append_column(name, pa.nulls(len(found), kind))
    return found
