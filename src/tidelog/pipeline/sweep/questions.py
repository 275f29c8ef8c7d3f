"""The questions that the documents leave open, answered from counts: each a sentence and a small table.

Cells are taken together by the settings named in a table's first column. A sentence says what was seen in
these trials and nothing else, so another sweep may be answered differently; an answer for which a sweep has
no cells is left out rather than guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.pipeline.sweep.cells import POWERFUL
from tidelog.pipeline.sweep.intervals import Share, percent
from tidelog.pipeline.sweep.summary import CellCount

RULES = ("hw", "kip101", "epoch", "elr", "majority")


@dataclass(slots=True, frozen=True)
class SweepAnswer:
    question: str
    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Pool:
    """Cells taken together."""

    def __init__(self, counts: Sequence[CellCount]) -> None:
        self.counts = [count for count in counts if count.exercised]

    def where(self, *, power: bool | None = None, **settings: Any) -> Pool:
        """Those with these settings; ``power``: whether disks may lose what was not flushed."""
        found = []
        for count in self.counts:
            fails = any(kind in POWERFUL for kind in count.cell.kinds)
            if power in (None, fails) and all(getattr(count.cell, k) == v for k, v in settings.items()):
                found.append(count)
        return Pool(found)

    def values(self, setting: str) -> list[Any]:
        return sorted({getattr(count.cell, setting) for count in self.counts})

    def by_rules(self) -> dict[str, Pool]:
        pools = {name: self.where(generation=name) for name in RULES}
        return {name: pool for name, pool in pools.items() if pool.trials}

    @property
    def trials(self) -> int:
        return sum(count.judged for count in self.counts)

    def share(self, kind: str) -> Share:
        return Share(sum(count.bad.get(kind, 0) for count in self.counts), self.trials)

    def words(self, kind: str) -> str:
        return self.share(kind).words()

    def seen(self, mark: str) -> int:
        return sum(count.seen.get(mark, 0) for count in self.counts)

    def _ratio(self, part: str, whole: str) -> float:
        total = sum(count.measures.get(whole, 0) for count in self.counts)
        return sum(count.measures.get(part, 0) for count in self.counts) / total if total else 0.0

    @property
    def leaderless(self) -> str:
        return percent(self._ratio("unavailable_ms", "elapsed_ms"))

    @property
    def unanswered(self) -> str:
        return percent(1 - self._ratio("acknowledged", "sent"))


def answers(counts: Sequence[CellCount]) -> list[SweepAnswer]:
    """All that this sweep has something to say about."""
    pool = Pool(counts)
    made = [
        question(pool)
        for question in (_raft, _why_not_majority, _min_insync, _order, _truncation, _replaced, _which)
    ]
    return [answer for answer in made if len(answer.rows) > 1]


def _found(pools: dict[str, Pool], kind: str, verb: str) -> str:
    """`hw and kip101 lost records; epoch and majority never did.` Nothing, if nothing was played."""
    if not pools:
        return ""
    some = [name for name, pool in pools.items() if pool.share(kind).count]
    none = [name for name in pools if name not in some]
    if not some:
        return f"{_list(none)} never {verb}."
    return f"{_list(some)} {verb}; {_list(none)} never did." if none else f"{_list(some)} {verb}."


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ---------------------------------------------------------------- one function for each question


def _raft(pool: Pool) -> SweepAnswer:
    pools = pool.where(acks="all", unclean=False, power=False).by_rules()
    return SweepAnswer(
        "How do Raft and ZAB avoid losing acknowledged records?",
        "A follower there cuts its log only where it contradicts the leader's. With acks=all, clean "
        "elections and disks that keep what was written: "
        + _found(pools, "lost", "lost acknowledged records"),
        ("rules", "trials", "lost"),
        tuple((name, f"{own.trials:,}", own.words("lost")) for name, own in pools.items()),
    )


def _why_not_majority(pool: Pool) -> SweepAnswer:
    rows = []
    for name in ("epoch", "majority"):
        own = pool.where(generation=name, acks="all", unclean=False, min_insync=1, power=False)
        for copies in own.values("replicas"):
            some = own.where(replicas=copies)
            words = f"{name}, {copies} copies"
            rows.append((words, f"{some.trials:,}", some.leaderless, some.unanswered, some.words("lost")))
    return SweepAnswer(
        "Why does Kafka not acknowledge on a majority?",
        "Copies are what costs: an ISR goes on with the last one, a majority of three stops when two are "
        "gone. Here is what both paid with the same copies under crashes, pauses and cuts.",
        ("rules and copies", "trials", "time without a leader", "sends not acknowledged", "lost"),
        tuple(rows),
    )


def _min_insync(pool: Pool) -> SweepAnswer:
    rows = []
    for unclean in (False, True):
        own = pool.where(generation="epoch", acks="all", unclean=unclean)
        for least in own.values("min_insync"):
            some = own.where(min_insync=least)
            mild, power = some.where(power=False), some.where(power=True, flush="roll")
            words = f"{least}, {'unclean' if unclean else 'clean'} elections"
            rows.append((words, mild.words("lost"), power.words("lost"), mild.unanswered))
    return SweepAnswer(
        "When to use min.insync.replicas?",
        "When a record must be on several machines before it is promised. Under epoch with acks=all, what "
        "each value lost, and what it cost in sends that were not acknowledged.",
        ("min.insync.replicas", "lost, disks intact", "lost, power fails, no flush", "not acknowledged"),
        tuple(rows),
    )


def _order(pool: Pool) -> SweepAnswer:
    rows = []
    for idempotent in (False, True):
        own = pool.where(generation="epoch", acks="all", unclean=False, power=False, idempotent=idempotent)
        for retries in own.values("retries"):
            some = own.where(retries=retries)
            words = f"{'idempotent' if idempotent else 'plain'}, retries={retries}"
            rows.append((words, f"{some.trials:,}", some.words("reordered"), some.words("duplicated")))
    return SweepAnswer(
        "Order within a partition, or over everything?",
        "Within a partition, and there in the order in which sends arrive: a producer that tries again may "
        "overtake itself, and write twice. Under epoch, with acks=all and disks intact:",
        ("producer", "trials", "reordered", "duplicated"),
        tuple(rows),
    )


def _truncation(pool: Pool) -> SweepAnswer:
    pools = pool.where(acks="all", unclean=False, power=False).by_rules()
    rows = []
    for name, own in pools.items():
        rows.append(
            (name, f"{own.seen('truncated'):,} of {own.trials:,}", own.words("lost"), own.words("rewritten"))
        )
    return SweepAnswer(
        "Does truncation remove only uncommitted records?",
        "That depends on the rules: logs are cut under all of them. With acks=all, clean elections and disks "
        f"intact, {_found(pools, 'lost', 'cut away what had been acknowledged')}",
        ("rules", "trials with a cut", "lost", "read, and then changed"),
        tuple(rows),
    )


def _replaced(pool: Pool) -> SweepAnswer:
    pools = pool.where(acks="all", unclean=False, power=False).by_rules()
    return SweepAnswer(
        "Can truncation by high watermark be replaced?",
        "By leader epochs, asked for until both logs agree. With acks=all, clean elections and disks "
        f"intact: {_found(pools, 'diverged', 'ended with replicas that differ for ever')}",
        ("rules", "trials", "replicas differ for ever"),
        tuple((name, f"{own.trials:,}", own.words("diverged")) for name, own in pools.items()),
    )


def _which(pool: Pool) -> SweepAnswer:
    rows = []
    for name in ("epoch", "elr", "majority"):
        own = pool.where(generation=name, acks="all", unclean=False)
        groups = {"disks intact": own.where(power=False)}
        groups["power fails, no flush"] = own.where(power=True, flush="roll")
        groups["power fails, every write flushed"] = own.where(power=True, flush="always")
        for words, some in groups.items():
            if some.trials:
                rows.append((f"{name}, {words}", f"{some.trials:,}", some.words("lost"), some.leaderless))
    return SweepAnswer(
        "ISR or majority: which one?",
        "Both are compared with acks=all and clean elections. What decides is less the rule than whether a "
        "machine that comes back still has what it acknowledged.",
        ("rules", "trials", "lost", "time without a leader"),
        tuple(rows),
    )
