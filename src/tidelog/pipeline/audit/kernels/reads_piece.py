"""Round one over a file of reads: sums of what each consumer read, where it was moved, and what it read too
early.

`position_before` is the offset that a consumer waited for, so a read shows by itself whether the consumer was
moved on or back. A consumer that got this answer (`out_of_range`: the log no longer has its place) moved by
its own policy. That is worth a notice; that the log was cut off behind it shows as lost and rewritten
records. So is the move of one that belongs to a group and may have been moved by it (`rebalanced`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tidelog.narrate.phrasebook import Phrase, joined
from tidelog.pipeline.audit.context import Context, Vanished
from tidelog.pipeline.audit.findings import (
    NOTICE,
    VIOLATION,
    Circumstance,
    Facts,
    Finding,
    FindingWriter,
    Tally,
)
from tidelog.pipeline.audit.kernels.hashes import (
    OFFSET_BITS,
    STRETCH,
    Flags,
    Ints,
    Words,
    coded,
    contents,
    ints,
    log_sums,
    runs_of,
    spots,
    stretch_keys,
    summed,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import TablePiece

COLUMNS: Final = (
    *("consumer", "topic", "partition", "offset", "leader_epoch", "key", "value", "value_crc32", "read_us"),
    *("poll", "position_before", "position_after", "timestamp_ms"),
)
EARLY_MAX: Final = 20_000
"""Reads above the watermark that a piece hands back; the others are counted."""
LONG_MAX: Final = 10_000


@dataclass(slots=True)
class Reads:
    """The columns of a piece as numbers."""

    table: Any
    part: Ints
    offset: Ints
    value: Words
    consumer: Ints
    consumers: list[str | None]
    read: Ints
    before: Ints
    poll: Ints

    def consumer_at(self, row: int) -> str:
        return self.consumers[int(self.consumer[row])] or ""

    def finding(self, row: int, anomaly: str, severity: str, **more: Any) -> Finding:
        """Of one of them."""
        return Finding(
            anomaly,
            severity,
            int(self.part[row]),
            int(self.offset[row]),
            self.table["leader_epoch"][row].as_py(),
            self.table["value"][row].as_py(),
            consumer=self.consumers[int(self.consumer[row])],
            time_us=int(self.read[row]),
            **more,
        )


@dataclass(slots=True)
class Jump:
    """A consumer waited for `before` and was given `landed`."""

    part: int
    consumer: str
    poll: int
    before: int
    landed: int
    read_us: int


@dataclass(slots=True)
class ReadsResult:
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of each consumer: stretches, records and their sum."""
    final_sums: tuple[Any, ...] | None = None
    """Of the final reader, as of a log."""
    final: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first and the last offset that the final reader read of each partition."""
    jump_keys: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Stretches in which a consumer was moved on."""
    long_jumps: list[Jump] = field(default_factory=list)
    """Those over more than a stretch; of very many the first."""
    long_count: int = 0
    unplaced: int = 0
    early: list[Finding] = field(default_factory=list)
    early_count: int = 0
    drawn: Counter[tuple[str, int]] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Tally)


def reads_of(context: Context, table: Any) -> Reads:
    consumer, names = coded(table["consumer"])
    part = context.numbers(table)
    followed = np.array([name in context.followed for name in names], np.bool_)[consumer] & (part >= 0)
    before, lane = ints(table["position_before"]), (part << 32) | consumer
    return Reads(
        table,
        part,
        ints(table["offset"]),
        text_hashes(table["value"]),
        consumer,
        names,
        ints(table["read_us"]),
        _places(np.flatnonzero(followed), lane, before, ints(table["position_after"])),
        ints(table["poll"]),
    )


def _places(rows: Ints, lane: Ints, before: Ints, after: Ints) -> Ints:
    """Where consumers were before each read. Of those whose every read is known the one before tells it, too:
    a record between the two is one that they did not get, a record before it one that they got again."""
    order = rows[np.argsort(lane[rows], kind="stable")]
    if len(order) < 2:
        return before
    same = lane[order][1:] == lane[order][:-1]
    lanes = np.concatenate(([0], np.cumsum(~same))) << OFFSET_BITS
    came = after[order][:-1]
    farthest = np.maximum.accumulate(after[order] + lanes)[:-1] - lanes[:-1]
    place = before[order][1:]
    place = np.where(place > farthest, farthest, np.where(place < came, came, place))
    found = before.copy()
    found[order[1:]] = np.where(same & (before[order][1:] >= 0), place, before[order][1:])
    return found


def judge_reads(context: Context, piece: TablePiece) -> ReadsResult:
    reads = reads_of(context, read_piece(context.place, piece, COLUMNS))
    result = ReadsResult(rows=len(reads.offset), unplaced=int((reads.before < 0).sum()))
    crc, key = ints(reads.table["value_crc32"]), context.key_hashes(reads.table["key"])
    as_sent = contents(spots(reads.offset, reads.value), crc, key)
    content = context.as_read(as_sent, reads.table)
    starts, _ = context.limits()
    # What was read below the start of the log was deleted since.
    counted = (reads.part >= 0) & (reads.offset >= starts[reads.part])
    for code in np.unique(reads.consumer).tolist():
        name = reads.consumers[code] or ""
        mine = reads.consumer == code
        result.counts[name] = int(mine.sum())
        rows = np.flatnonzero(mine & counted)
        keys = stretch_keys(reads.part[rows], reads.offset[rows])
        result.sums[name] = summed(keys, content[rows])
        if name == context.final_reader:
            result.final_sums = log_sums(keys, content[rows], as_sent[rows], reads.value[rows] != 0)
            _ends(result, reads, np.flatnonzero(mine & (reads.part >= 0)))
        if name in context.shown_consumers:
            _draw(context, result, name, reads.read[mine])
    _jumps(result, reads)
    writer = FindingWriter(context, f"reads-{piece.number:06}")
    writer.add_all(_moved_back(context, reads))
    result.tally = writer.close()
    _early(context, result, reads)
    return result


def _ends(result: ReadsResult, reads: Reads, rows: Ints) -> None:
    order = rows[np.lexsort((reads.offset[rows], reads.part[rows]))]
    first, last = runs_of(reads.part[order])
    for a, z in zip(order[first].tolist(), order[last].tolist(), strict=True):
        result.final[int(reads.part[a])] = (int(reads.offset[a]), int(reads.offset[z]))


def _draw(context: Context, result: ReadsResult, name: str, times: Ints) -> None:
    axis = context.axis
    inside = times[(times >= axis.start_us) & (times <= axis.start_us + axis.span_ms * 1000)]
    for at, count in zip(*np.unique(axis.at(inside), return_counts=True), strict=True):
        result.drawn[name, int(at)] = int(count)


# ---------------------------------------------------------------- moves


def is_jump(reads: Reads) -> Flags:
    found: Flags = (reads.part >= 0) & (reads.before >= 0) & (reads.offset > reads.before)
    return found


def is_long(reads: Reads) -> Flags:
    found: Flags = reads.before // STRETCH != (reads.offset - 1) // STRETCH
    return found


def jump_at(reads: Reads, row: int) -> Jump:
    return Jump(
        int(reads.part[row]),
        reads.consumer_at(row),
        int(reads.poll[row]),
        int(reads.before[row]),
        int(reads.offset[row]),
        int(reads.read[row]),
    )


def _jumps(result: ReadsResult, reads: Reads) -> None:
    jumps = is_jump(reads)
    if not jumps.any():
        return
    near = np.flatnonzero(jumps & ~is_long(reads))
    result.jump_keys = np.unique(stretch_keys(reads.part[near], reads.before[near]))
    far = np.flatnonzero(jumps & is_long(reads)).tolist()
    result.long_count = len(far)
    for row in far[:LONG_MAX]:
        result.long_jumps.append(jump_at(reads, row))


def moved_why(
    vanished: Vanished, consumer: str, part: Any, before: int, read_us: int
) -> tuple[str, Phrase | None, Circumstance | None]:
    """Severity of a consumer's move, what it has to do with, and its circumstance."""
    noticed = vanished.get((consumer, part, before))
    if noticed is None or noticed[0] > read_us:
        return VIOLATION, None, None
    if noticed[1] == "rebalanced":
        return NOTICE, Phrase("detail.moved_by_group"), Circumstance.MOVED_BY_GROUP
    return NOTICE, Phrase("detail.place_gone"), None


def _moved(consumer: str, before: int, landed: int, *more: Phrase | None) -> Phrase:
    moved = Phrase.of("detail.moved", consumer=consumer, before=before, landed=landed)
    return joined((moved, *filter(None, more)), "detail.and")


def skip_finding(
    context: Context, jump: Jump, first: tuple[int, str | None, int | None], count: int
) -> Finding:
    severity, why, circumstance = moved_why(
        context.vanished, jump.consumer, jump.part, jump.before, jump.read_us
    )
    return Finding(
        "poll skip",
        severity,
        jump.part,
        first[0],
        first[2],
        first[1],
        consumer=jump.consumer,
        time_us=jump.read_us,
        count=count,
        detail=_moved(jump.consumer, jump.before, jump.landed, why),
        circumstance=circumstance,
        facts=Facts(position=jump.before),
    )


def _moved_back(context: Context, reads: Reads) -> Iterator[Finding]:
    rows = np.flatnonzero((reads.part >= 0) & (reads.before >= 0) & (reads.offset < reads.before))
    if not len(rows):
        return
    after = ints(reads.table["position_after"])
    lane = (reads.part << 32) | reads.consumer
    order = np.argsort(lane, kind="stable")
    lanes = lane[order]
    for row in rows.tolist():
        consumer, part = reads.consumer_at(row), int(reads.part[row])
        before, offset = int(reads.before[row]), int(reads.offset[row])
        read_us = int(reads.read[row])
        mine = order[np.searchsorted(lanes, lane[row]) : np.searchsorted(lanes, lane[row], "right")]
        same_poll = mine[reads.poll[mine] == reads.poll[row]]
        # A poll leads from place to place. Where it went back from is a place of its own if it came there as
        # often as it left. If it left once more, it began there, and the record contradicts an earlier poll.
        came = int((after[same_poll] == before).sum()) - (offset + 1 == before)
        left = int((reads.before[same_poll] == before).sum())
        earlier = mine[(after[mine] == before) & (reads.read[mine] <= read_us) & (mine < row)]
        severity, why, circumstance = moved_why(context.vanished, consumer, part, before, read_us)
        inside = Phrase("detail.inside_poll") if came >= left else None
        since_us = int(reads.read[earlier[-1]]) if len(earlier) else None
        yield reads.finding(
            row,
            "non-monotonic poll",
            severity,
            detail=_moved(consumer, before, offset, inside, why),
            circumstance=circumstance,
            facts=Facts(since_us=since_us, position=before),
        )


# ---------------------------------------------------------------- too early


def _early(context: Context, result: ReadsResult, reads: Reads) -> None:
    """The last record of each poll, against the highest watermark that a leader had recorded by then. A
    broker that is killed takes its last moves with it, so polls around the end of a broker are not judged."""
    early = np.zeros(len(reads.offset), np.bool_)
    for number, (at, mark) in context.known_marks.items():
        mine = np.flatnonzero(reads.part == number)
        if not len(mine):
            continue
        before = np.searchsorted(at, reads.read[mine] + context.slack_us, "right")
        known = np.where(before > 0, mark[np.maximum(before - 1, 0)], 0)
        early[mine] = reads.offset[mine] >= known
    rows = np.flatnonzero(early)
    if not len(rows):
        return
    for end_us in context.ends_us.tolist():
        near = np.abs(reads.read[rows] - end_us) <= 2 * context.slack_us
        rows = rows[~near]
    order = np.lexsort((reads.offset[rows], reads.read[rows], reads.consumer[rows], reads.part[rows]))
    rows = rows[order]
    _, polls = runs_of(reads.part[rows], reads.consumer[rows], reads.read[rows])
    lasts = rows[polls]
    result.early_count = len(lasts)
    for row in lasts.tolist()[:EARLY_MAX]:
        at, mark = context.known_marks[int(reads.part[row])]
        count = int(np.searchsorted(at, reads.read[row] + context.slack_us, "right"))
        highest = int(mark[count - 1]) if count else 0
        detail = Phrase.of("detail.read_early", consumer=reads.consumer_at(row), mark=highest)
        result.early.append(reads.finding(row, "precommitted read", VIOLATION, detail=detail))
