"""Acknowledgements against the leaders' own account of what they committed, and by which clocks.

A move of the high watermark is recorded with the replicas that had to have the records. Brokers put moves
of a quarter of a second together and give them the time of the last one, so a record was committed up to that
much before the time of its move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.causes.history import NOTHING, History
from tidelog.pipeline.audit.context import Context, Moves
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import VIOLATION, Finding
from tidelog.pipeline.audit.kernels.hashes import Ints

if TYPE_CHECKING:
    from tidelog.pipeline.audit.kernels.ledger_piece import Sends

HELD_BACK_US: Final = 250_000
_TICK_US: Final = 1000
"""Events have milliseconds, sends have microseconds."""
_ALL: Final = -1
_BOUNDS_MAX: Final = 512
"""Of one broker, that a piece hands back."""


@dataclass(slots=True)
class Judged:
    """How many acknowledgements of acks=all there were, and how many could be held against a move."""

    promised: int = 0
    judged: int = 0


@dataclass(slots=True)
class Bounds:
    """What sends say about how far a broker's clock is ahead: at least, and at most."""

    least: list[Ints] = field(default_factory=list)
    most: list[Ints] = field(default_factory=list)


def held_back_us(context: Context) -> int:
    return HELD_BACK_US if context.slack_us else 0


def clock_bounds(context: Context, sends: Sends) -> dict[int, Bounds]:
    """For each broker, by how much its clock is ahead of the clients' at least and at most, as its sends say.

    What a broker commits was sent before, and is acknowledged after. The second holds only for records that
    it appended itself: what it had as a follower may have been committed and acknowledged by a leader that
    was killed before it wrote down its last moves.
    """
    found: dict[int, Bounds] = {}
    for number, rows, covering in _covered(context, sends):
        moves = context.moves[number]
        history = context.histories.get(number, NOTHING)
        ends = {(election.epoch, election.broker): election.end for election in history.elections}
        leaders = zip(moves.epoch.tolist(), moves.broker.tolist(), strict=True)
        appended_from = np.array([ends.get(leader, 0) for leader in leaders], np.int64)
        at = moves.at_us[covering]
        # A move has the time of its last record: that one was acknowledged later.
        final = sends.offset[rows] == moves.to_offset[covering] - 1
        final &= sends.offset[rows] >= appended_from[covering]
        least, most = at - _TICK_US - sends.settled[rows], at + _TICK_US - sends.sent[rows]
        broker = moves.broker[covering]
        for each in np.unique(broker).tolist():
            mine = broker == each
            told = found.setdefault(each, Bounds())
            told.least.append(_thinned(least[mine & final]))
            told.most.append(_thinned(most[mine]))
    return found


def _thinned(bounds: Ints) -> Ints:
    """A bounded number of them that has the same median."""
    step = -(-len(bounds) // _BOUNDS_MAX) or 1
    return np.sort(bounds)[step // 2 :: step]


def _covered(context: Context, sends: Sends) -> Iterator[tuple[int, Ints, Ints]]:
    """Acknowledged sends of acks=all whose offset lies in just one move of the watermark and was written only
    once: the number of the partition, the rows of the sends, and which move."""
    for number, moves in context.moves.items():
        rows = np.flatnonzero(
            (sends.part == number)
            & (sends.outcome == 0)
            & (sends.acks == _ALL)
            & (sends.offset >= 0)
            & (sends.settled >= 0)
        )
        if not len(rows):
            continue
        order = np.argsort(moves.to_offset, kind="stable")
        ends = moves.to_offset[order]
        offset = sends.offset[rows]
        at = np.searchsorted(ends, offset, "right")
        inside = at < len(ends)
        move = order[np.minimum(at, len(ends) - 1)]
        inside &= moves.from_offset[move] <= offset
        # Where leaders recorded the same offsets twice, it is not known which of them answered.
        following = order[np.minimum(at + 1, len(ends) - 1)]
        inside &= (at + 1 >= len(ends)) | (moves.from_offset[following] > offset)
        for low, high in _written_twice(moves, context.histories.get(number, NOTHING)):
            inside &= (offset < low) | (offset >= high)
        yield number, rows[inside], move[inside]


def _written_twice(moves: Moves, history: History) -> Iterator[tuple[int, int]]:
    """Offsets at which there may have been different records: what was cut off, and what a leader began anew
    though the log had gone further before."""
    yield from ((cut.after, cut.before) for cut in history.cuts)
    for election in history.elections:
        yield election.end, int(moves.to_offset[moves.epoch < election.epoch].max(initial=0))


def below_promise(context: Context, sends: Sends) -> tuple[list[Finding], Judged]:
    """Sends of acks=all that fewer replicas had than were promised when they were acknowledged."""
    found: list[Finding] = []
    promised = np.flatnonzero(
        (sends.outcome == 0) & (sends.acks == _ALL) & (sends.offset >= 0) & (sends.part >= 0)
    )
    judged = Judged(len(promised))
    if Need.EVENTS not in context.facts or not len(promised):
        return found, judged
    part = sends.part[promised]
    for number in np.unique(part).tolist():
        moves = context.moves.get(number)
        if moves is not None:
            rows = promised[part == number]
            judged.judged += _judge(context, number, moves, sends, rows, found)
    return found, judged


def _judge(  # noqa: PLR0917
    context: Context, number: int, moves: Moves, sends: Sends, rows: Ints, found: list[Finding]
) -> int:
    least = context.parts[number].min_insync
    early = held_back_us(context)
    offset, sent, settled = sends.offset[rows], sends.sent[rows], sends.settled[rows]
    settled = np.where(settled < 0, 1 << 62, settled)
    kept = np.zeros(len(rows), np.bool_)
    below = np.full(len(rows), -1, np.int64)
    near = (moves.to_offset > offset.min()) & (moves.from_offset <= offset.max())
    for move in np.flatnonzero(near).tolist():
        at = int(moves.at_us[move])
        # The record at that offset is the acknowledged one only if it was sent by then.
        covered = (
            (offset >= moves.from_offset[move])
            & (offset < moves.to_offset[move])
            & (at + _TICK_US > sent)
            & (at - early <= settled)
        )
        if not covered.any():
            continue
        if moves.in_sync[move] >= least:
            kept |= covered
        else:
            below[covered & (below < 0)] = move
    judged = kept | (below >= 0)
    enough = context.enough.get(number, np.zeros(0, np.int64))
    for row in np.flatnonzero((below >= 0) & ~kept).tolist():
        move = int(below[row])
        at = int(moves.at_us[move])
        # One who asks again later is answered when enough have it.
        first = int(np.searchsorted(enough, at - early))
        if first < len(enough) and enough[first] <= settled[row] + early:
            continue
        told = Phrase.of("detail.committed_by", isr=moves.isr[move], least=least)
        found.append(
            sends.finding(
                int(rows[row]),
                "acknowledged below promise",
                VIOLATION,
                int(offset[row]),
                leader_epoch=int(moves.epoch[move]),
                broker=int(moves.broker[move]),
                count=int(moves.in_sync[move]),
                detail=told,
            )
        )
    return int(judged.sum())


# ---------------------------------------------------------------- what clocks do not let judge


def apart(context: Context, told: Iterable[Mapping[int, Bounds]]) -> dict[int, int]:
    """Brokers whose clock differs from the clients' by more than the slack that every comparison allows for,
    and by how many us it is ahead (or, if negative, behind). Half of the sends must say so: a few whose
    acknowledgement is false set no clock."""
    together: dict[int, Bounds] = {}
    for piece in told:
        for broker, bounds in piece.items():
            known = together.setdefault(broker, Bounds())
            known.least += bounds.least
            known.most += bounds.most
    found = {}
    for broker, bounds in sorted(together.items()) if context.slack_us else ():
        least, most = (np.concatenate(listed) for listed in (bounds.least, bounds.most))
        if (len(least) and np.median(least) > context.slack_us) or (
            len(most) and np.median(most) < -context.slack_us
        ):
            # An acknowledgement that comes at once tells it best, and a few may be false.
            found[broker] = int(np.quantile(least, 0.9) if len(least) else np.median(most))
    return found


def judge_early(
    context: Context, early: list[Finding], count: int, skewed: Mapping[int, int]
) -> tuple[list[Finding], list[Phrase]]:
    """Reads above the watermark that the clocks allow to judge, and what they do not."""
    if not skewed:
        more = count - len(early)
        return early, [Phrase.of("unjudged.more_early_reads", count=more)] if more else []
    led = {
        number
        for number, moves in context.moves.items()
        if any(int(broker) in skewed for broker in set(moves.broker.tolist()))
    }
    kept = [finding for finding in early if finding.part not in led]
    far = ", ".join(f"{broker} ({us / 1e6:+.1f} s)" for broker, us in skewed.items())
    return kept, [Phrase.of("unjudged.clocks", count=len(led), brokers=far)]
