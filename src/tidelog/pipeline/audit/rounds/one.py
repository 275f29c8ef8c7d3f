"""Round one: every piece once, without a shuffle; what comes back is small, and is brought together here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.audit.causes.history import History
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import Finding, Tally
from tidelog.pipeline.audit.kernels.hashes import Ints, Words, summed
from tidelog.pipeline.audit.kernels.ledger_piece import LedgerResult, judge_ledger
from tidelog.pipeline.audit.kernels.log_piece import LogResult, ReplicaDamage, judge_log
from tidelog.pipeline.audit.kernels.reads_piece import Jump, ReadsResult, judge_reads
from tidelog.pipeline.audit.kernels.tables import UnreadableFile
from tidelog.pipeline.audit.pieces import Piece, TablePiece

_NOTHING: Final = np.zeros(0, np.int64)


@dataclass(slots=True, frozen=True)
class Unreadable:
    """A Parquet file that turned out to be damaged."""

    name: str
    why: str


def judge_piece(context: Context, piece: Piece) -> LogResult | LedgerResult | ReadsResult | Unreadable:
    try:
        if not isinstance(piece, TablePiece):
            return judge_log(context, piece)
        if piece.table == LEDGER.name:
            return judge_ledger(context, piece)
        return judge_reads(context, piece)
    except UnreadableFile as error:
        return Unreadable(error.name, error.why)


judge_piece.on_workers = True  # type: ignore[attr-defined]


@dataclass(slots=True)
class Summed:
    """Round one, brought together."""

    log: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Stretch → records, their sum, records with a value, their sum."""
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)
    read: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    records: Counter[int] = field(default_factory=Counter)
    problems: set[ReplicaDamage] = field(default_factory=set)
    newest: dict[tuple[int, int], int] = field(default_factory=dict)
    """Partition and place → when the newest record below it was made."""
    reads: Counter[str] = field(default_factory=Counter)
    jump_keys: Ints = field(default_factory=lambda: _NOTHING)
    long_jumps: list[Jump] = field(default_factory=list)
    long_count: int = 0
    early: list[Finding] = field(default_factory=list)
    early_count: int = 0
    unplaced_reads: int = 0
    ledgers: list[LedgerResult] = field(default_factory=list)
    drawn: Counter[tuple[str, int]] = field(default_factory=Counter)
    tallies: list[Tally] = field(default_factory=list)

    @property
    def renumbered(self) -> frozenset[str | None]:
        """Producers of which the ledger may have two sends with one number: neither their count nor the sums
        of their numbers and of the squares of these are those of 0, 1, 2, …"""
        plain = [result for result in self.ledgers if result.doubles is None]
        counts: Counter[str | None] = Counter()
        sums: Counter[tuple[str | None, int]] = Counter()
        lasts: dict[str | None, int] = {}
        for result in plain:
            for (producer, _, _, _), count in result.totals.items():
                counts[producer] += count
            sums.update(result.numbers)
            for producer, last in result.lasts.items():
                lasts[producer] = max(last, lasts.get(producer, -1))

        def is_whole(producer: str | None, n: int) -> bool:
            wanted = (n + 1, n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6)
            told = (counts[producer], sums[producer, 1], sums[producer, 2])
            return all((a - b) % (1 << 64) == 0 for a, b in zip(told, wanted, strict=True))

        return frozenset(producer for producer, last in lasts.items() if not is_whole(producer, last))

    @property
    def candidates(self) -> Words:
        """Values of sends without an answer, and values that were sent more than once."""
        found = [result.candidates for result in self.ledgers]
        doubles = [result.doubles for result in self.ledgers if result.doubles is not None]
        if doubles:
            keys, counts = np.unique(np.concatenate(doubles), return_counts=True)
            found.append(keys[counts > 1])
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint64)


def bring_together(
    context: Context, logs: Sequence[LogResult], ledgers: Sequence[LedgerResult], reads: Sequence[ReadsResult]
) -> Summed:
    found = Summed(ledgers=list(ledgers))
    found.log = _merged([result.sums for result in logs if result.sums is not None])
    by_reads = [result.final_sums for result in reads if result.final_sums is not None]
    unseen = {part.number for part in context.parts if part.broker is None and part.known}
    if unseen and by_reads:
        of_reader = _merged(by_reads)
        found.log.update({key: row for key, row in of_reader.items() if key >> 40 in unseen})
    found.sent = _merged([result.sums for result in ledgers if result.sums])
    for result in logs:
        found.records.update(result.records)
        found.problems.update(result.problems)
        found.tallies.append(result.tally)
        for spot, made_us in result.newest.items():
            found.newest[spot] = max(found.newest.get(spot, made_us), made_us)
    for (number, place), made_us in sorted(found.newest.items()):
        context.histories.setdefault(number, History()).newest.append((place, made_us))
    _bring_reads(found, reads)
    found.tallies += [result.tally for result in ledgers]
    return found


def _bring_reads(found: Summed, reads: Sequence[ReadsResult]) -> None:
    by_consumer: dict[str, list[tuple[Any, ...]]] = {}
    keys = [result.jump_keys for result in reads if len(result.jump_keys)]
    for result in reads:
        found.reads.update(result.counts)
        found.drawn.update(result.drawn)
        found.long_jumps += result.long_jumps
        found.long_count += result.long_count
        found.early += result.early
        found.early_count += result.early_count
        found.unplaced_reads += result.unplaced
        found.tallies.append(result.tally)
        for consumer, sums in result.sums.items():
            by_consumer.setdefault(consumer, []).append(sums)
    found.read = {consumer: _merged(sums) for consumer, sums in by_consumer.items()}
    if keys:
        found.jump_keys = np.unique(np.concatenate(keys))


def _merged(listed: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
    """Sums of the same stretches, added."""
    listed = [sums for sums in listed if len(sums[0])]
    if not listed:
        return {}
    keys = np.concatenate([sums[0] for sums in listed])
    columns = [
        np.concatenate([np.asarray(sums[n]).astype(np.uint64) for sums in listed])
        for n in range(1, len(listed[0]))
    ]
    found, _, *added = summed(keys, *columns)
    return dict(zip(found.tolist(), zip(*(column.tolist() for column in added), strict=True), strict=True))


def differing(context: Context, found: Summed, facts: frozenset[Need]) -> Ints:
    """The stretches in which the log differs from what producers were acknowledged and consumers read."""
    wanted: set[int] = set()
    if Need.SENDS in facts and Need.FINAL_LOG in facts:
        held = {key: (row[2], row[3]) for key, row in found.log.items() if row[2]}
        wanted |= {key for key in held.keys() | found.sent.keys() if held.get(key) != found.sent.get(key)}
        for result in found.ledgers:
            wanted.update(result.beyond.tolist())
    if Need.FINAL_LOG in facts:
        for consumer, sums in found.read.items():
            known = {key for key in sums if context.parts[key >> 40].known}
            wanted |= {key for key in known if found.log.get(key, (0, 0))[:2] != sums[key]}
            if consumer == context.final_reader and Need.FINAL_READ in facts:
                wanted |= {key for key in found.log if key not in sums}
        wanted.update(found.jump_keys.tolist())
        if (
            context.final_reader is not None
            and Need.FINAL_READ in facts
            and context.final_reader not in found.read
        ):
            wanted |= found.log.keys()
    return np.array(sorted(key for key in wanted if context.parts[key >> 40].known), np.int64)
