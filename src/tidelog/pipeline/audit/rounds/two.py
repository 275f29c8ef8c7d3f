"""Round two: the rows of stretches that differ, by place; then values whose place is not known, by value;
then order, where sends turned out to be elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.engines import Engine
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import Finding, Tally
from tidelog.pipeline.audit.kernels.copies import Identity, identified
from tidelog.pipeline.audit.kernels.hashes import OFFSET_BITS, STRETCH, Ints, Words, coded, ints
from tidelog.pipeline.audit.kernels.ledger_piece import values_sent
from tidelog.pipeline.audit.kernels.log_piece import LOG_COLUMNS, final_rows
from tidelog.pipeline.audit.kernels.order import OrderPiece, between_files, judge_order
from tidelog.pipeline.audit.kernels.places import PlacesShared, judge_places
from tidelog.pipeline.audit.kernels.reads_piece import Jump, skip_finding
from tidelog.pipeline.audit.kernels.round_two_rows import Wanted, emit_places, emit_values, suspects
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.kernels.values import ValuesShared, judge_values
from tidelog.pipeline.audit.pieces import LogPiece, RecordsPiece, TablePiece
from tidelog.pipeline.audit.rounds.one import Summed, differing
from tidelog.pipeline.audit.rounds.parcels import BUCKETS_MAX, ROWS_PER_BUCKET, Parcel, buckets_of

_STEPS: Final = 5
_IDENTITY: Final = ("offset", "leader_epoch", "producer_id", "producer_epoch")
_MASK: Final = (1 << OFFSET_BITS) - 1


class SecondRound:
    def __init__(  # noqa: PLR0917
        self,
        context: Context,
        engine: Engine,
        summed: Summed,
        logs: Sequence[LogPiece | RecordsPiece],
        ledger: Sequence[TablePiece],
        reads: Sequence[TablePiece],
    ) -> None:
        self._context = context
        self._engine = engine
        self._summed = summed
        self._logs, self._ledger, self._reads = logs, ledger, reads
        self.tallies: list[Tally] = []
        self.found: list[Finding] = []
        self.repeated = 0
        self.unread = 0
        self.compacted: Counter[int] = Counter()
        self.real_offset: dict[int, int] = {}
        """Offsets of sends that are not where they were acknowledged, by their row: only of transactions."""

    def run(self, progress: Callable[[float], object]) -> None:
        context, facts = self._context, self._context.facts
        wanted = differing(context, self._summed, facts)
        parcels, candidates = self._by_place(wanted)
        progress(2 / _STEPS)
        row, real_offset = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if Need.SENDS in facts and Need.FINAL_LOG in facts:
            candidates = np.unique(
                np.concatenate((candidates, self._summed.candidates, self._numbered_twice()))
            )
        if len(candidates):
            row, real_offset = self._by_value(parcels, candidates)
        progress(4 / _STEPS)
        if "reordered" in context.audits:
            self._order(row, real_offset)
        self._long_jumps()
        if any(piece.transactional for piece in self._ledger):
            self.real_offset = dict(zip(row.tolist(), real_offset.tolist(), strict=True))

    # ------------------------------------------------------------ by place

    def _by_place(self, keys: Ints) -> tuple[list[Parcel], Words]:
        nothing = np.zeros(0, np.uint64)
        if not len(keys):
            return [], nothing
        context = self._context
        rows = len(keys) * STRETCH * (2 + len(self._summed.read))
        count = max(1, min(rows // ROWS_PER_BUCKET, BUCKETS_MAX))
        wanted = Wanted(context, keys, count)
        numbers = set((keys >> OFFSET_BITS).tolist())
        logs = [p for p in self._logs if isinstance(p, RecordsPiece) or p.part in numbers]
        pieces = [*logs, *self._ledger, *self._reads]
        parcels = [parcel for found in self._engine.run(emit_places, wanted, pieces) for parcel in found]
        shared = PlacesShared(context, count)
        results = self._engine.run(judge_places, shared, buckets_of(parcels))
        self.tallies += [result.tally for result in results]
        candidates = [result.candidates for result in results]
        found = np.unique(np.concatenate(candidates)) if candidates else nothing
        self._buckets = count
        return [parcel for result in results for parcel in result.parcels], found

    _buckets = 1

    # ------------------------------------------------------------ by value

    def _numbered_twice(self) -> Words:
        """Values of sends that have the number of another send of their producer."""
        producers = self._summed.renumbered
        if not producers:
            return np.zeros(0, np.uint64)
        found = self._engine.run(values_sent, (self._context, producers), self._ledger)
        keys, counts = np.unique(np.concatenate(found), return_counts=True)
        twice: Words = keys[counts > 1]
        return twice

    def _by_value(self, parcels: list[Parcel], candidates: Words) -> tuple[Ints, Ints]:
        context = self._context
        wanted = suspects(context, candidates, self._buckets)
        emitted = self._engine.run(emit_values, wanted, self._ledger)
        parcels = parcels + [parcel for found in emitted for parcel in found]
        shared = ValuesShared(context, self._keys())
        results = self._engine.run(judge_values, shared, buckets_of(parcels))
        for result in results:
            self.tallies.append(result.tally)
            self.repeated += result.repeated
            self.unread += result.unread
            self.compacted.update(result.compacted)
        self._identify([each for result in results for each in result.open])
        nothing = np.zeros(0, np.int64)
        row = np.concatenate([nothing, *(rows for result in results for rows in result.rows)])
        real_offset = np.concatenate([nothing, *(at for result in results for at in result.real_offsets)])
        order = np.argsort(row, kind="stable")
        return row[order], real_offset[order]

    def _keys(self) -> tuple[Any, Ints] | None:
        """Where each key of compacted topics was written last."""
        listed = [r.keys for r in self._summed.ledgers if r.keys is not None and len(r.keys[0])]
        if not listed:
            return None
        keys, place = (np.concatenate([each[n] for each in listed]) for n in range(2))
        order = np.lexsort((place, keys))
        keys, place = keys[order], place[order]
        last = np.concatenate((np.flatnonzero(keys[1:] != keys[:-1]), [len(keys) - 1]))
        return keys[last], place[last]

    def _identify(self, waiting: list[tuple[Finding, list[Identity]]]) -> None:
        """Who wrote the copies of duplicated values, where the sums agreed."""
        spots = {
            (finding.part or 0, offset)
            for finding, copies in waiting
            for offset, _, producer, _ in copies
            if producer is None
        }
        wrote = self._rows_at(spots)
        for finding, copies in waiting:
            known = [wrote.get((finding.part or 0, copy[0]), copy) for copy in copies]
            self.found.append(identified(finding, known, idempotent=True))

    def _rows_at(self, spots: set[tuple[int, int]]) -> dict[tuple[int, int], Identity]:
        found: dict[tuple[int, int], Identity] = {}
        if not spots:
            return found
        keys = np.unique(
            np.array([(part << OFFSET_BITS) | (offset // STRETCH) for part, offset in sorted(spots)])
        )
        for key in keys.tolist():
            part, stretch = key >> OFFSET_BITS, key & _MASK
            for table in self._log_rows(part, range(stretch * STRETCH, (stretch + 1) * STRETCH)):
                columns = (table[name].to_pylist() for name in _IDENTITY)
                for identity in zip(*columns, strict=True):
                    if (part, identity[0]) in spots:
                        found[part, identity[0]] = identity
        return found

    def _log_rows(self, part: int, span: range) -> list[Any]:
        """What the log that counts holds there."""
        found, context = [], self._context
        if context.parts[part].broker is None:
            return [self._read_rows(piece, part, span) for piece in self._reads]
        for piece in self._logs:
            mine = part in piece.parts if isinstance(piece, RecordsPiece) else part == piece.part
            rows = final_rows(context, piece, LOG_COLUMNS, span) if mine else None
            if rows is not None:
                found.append(rows.filter(pc.equal(rows["part"], part)))
        return found

    def _read_rows(self, piece: TablePiece, part: int, span: range) -> Any:
        """The same where the final reader's reads are the log."""
        context = self._context
        columns = ("consumer", "topic", "partition", "offset", "value", "leader_epoch")
        table = read_piece(context.place, piece, columns)
        offset, (codes, names) = ints(table["offset"]), coded(table["consumer"])
        final = np.array([name is not None and name == context.final_reader for name in names])[codes]
        mine = final & (context.numbers(table) == part) & (offset >= span.start) & (offset < span.stop)
        rows = table.filter(mine).select(["offset", "value", "leader_epoch"])
        rows = rows.rename_columns(["offset", "value_id", "leader_epoch"])
        return rows.append_column("visible", pa.repeat(True, len(rows)))

    # ------------------------------------------------------------ order

    def _order(self, row: Ints, real_offset: Ints) -> None:
        """Again where a send is elsewhere than it was acknowledged, or is before its predecessor."""
        results = self._summed.ledgers
        patched = set((row >> 32).tolist())
        groups = _overlapping([result.edges for result in results if result.edges], len(self._ledger))
        work = []
        for group in groups:
            if len(group) == 1 and group[0] not in patched and not results[group[0]].inversions:
                continue
            mine = np.isin(row >> 32, group)
            pieces = tuple(self._ledger[number] for number in group)
            size = sum(piece.bytes for piece in pieces)
            work.append(OrderPiece(group[0], pieces, row[mine], real_offset[mine], size))
        done = self._engine.run(judge_order, self._context, work)
        edges = [
            r.edges for n, r in enumerate(results) if r.edges and not any(n in _numbers(w) for w in work)
        ]
        for result in done:
            self.tallies.append(result.tally)
            if result.edges:
                edges.append(result.edges)
        self._stitch(edges, {w.number: w for w in work})

    def _stitch(self, edges: list[tuple[Any, ...]], work: dict[int, OrderPiece]) -> None:
        """The last send of a file against the first of the next, of each producer and partition."""
        lanes: dict[tuple[str, int], list[tuple[int, ...]]] = {}
        for piece, part, names, first, at, row, last, behind, settled in edges:
            for index, name in enumerate(names):
                lane = lanes.setdefault((name, int(part[index])), [])
                columns = (first, at, last, behind, settled, row, piece)
                lane.append(tuple(int(column[index]) for column in columns))
        for lane in lanes.values():
            lane.sort()
            for before, after in pairwise(lane):
                if after[1] < before[3] and not (after[6] in work and len(work[after[6]].pieces) > 1):
                    told = (before[2], before[3], before[4])
                    piece = self._ledger[after[6]]
                    self.found.append(between_files(self._context, piece, after[5], after[1], told))

    # ------------------------------------------------------------ far jumps

    def _long_jumps(self) -> None:
        """Consumers that were moved on by more than a stretch. What lies between is known by its sums."""
        log = self._summed.log
        if Need.FINAL_LOG not in self._context.facts:
            return
        for jump in self._summed.long_jumps:
            first, last = jump.before // STRETCH, (jump.landed - 1) // STRETCH
            passed = self._passed(jump, first) or []
            count = len(passed)
            for stretch in range(first + 1, last):
                held = log.get((jump.part << OFFSET_BITS) | stretch)
                if held is not None and held[2]:
                    count += held[2]
                    passed = passed or self._passed(jump, stretch)
            end = self._passed(jump, last)
            count += len(end)
            passed = passed or end
            if passed:
                self.found.append(skip_finding(self._context, jump, passed[0], count))

    def _passed(self, jump: Jump, stretch: int) -> list[tuple[int, str | None, int | None]]:
        span = range(max(stretch * STRETCH, jump.before), min((stretch + 1) * STRETCH, jump.landed))
        if not self._summed.log.get((jump.part << OFFSET_BITS) | stretch, (0, 0, 0, 0))[2]:
            return []
        return [
            (row["offset"], row["value_id"], row["leader_epoch"])
            for table in self._log_rows(jump.part, span)
            for row in table.filter(table["visible"]).to_pylist()
            if row["value_id"] is not None
        ]


def _numbers(work: OrderPiece) -> set[int]:
    return {piece.number for piece in work.pieces}


def _overlapping(edges: list[tuple[Any, ...]], count: int) -> list[list[int]]:
    """Files, those together in which numbers of a producer lie between each other."""
    leader = list(range(count))

    def root(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    spans: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for piece, part, names, first, _, _, last, _, _ in edges:
        for index, name in enumerate(names):
            span = (int(first[index]), int(last[index]), int(piece[index]))
            spans.setdefault((name, int(part[index])), []).append(span)
    for lane in spans.values():
        lane.sort()
        reach, owner = lane[0][1], lane[0][2]
        for begin, end, number in lane[1:]:
            if begin < reach:
                leader[root(number)] = root(owner)
            if end > reach:
                reach, owner = end, number
    groups: dict[int, list[int]] = {}
    for number in range(count):
        groups.setdefault(root(number), []).append(number)
    return [sorted(group) for group in groups.values()]
