"""From evidence to a verdict: plan, round one over all pieces, round two over what differs.

1. *Plan*: partitions, whose log counts, pieces (`partitions`, `pieces`). Plain Python, from small tables.
2. *Round one* (`rounds.one`): every piece once. Sums of stretches, and what a piece shows by itself.
3. *Sums are compared.* Where all agree there is nothing more to read.
4. *Round two* (`rounds.two`): the rows of stretches that differ, brought together by place; then values whose
   place is not known, by value. Only these are shuffled.
5. Causes are found by the kernel that finds; what is summed up comes to the driver.

Rules of the file: what cannot be read is never taken for what is not there. A damaged file of a table is left
out, named, and round one is done again without it; no final log is made of a damaged replica.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.tables import LEDGER, READS
from tidelog.narrate.phrasebook import Phrase, joined, say
from tidelog.pipeline.audit import log_folders, transactions
from tidelog.pipeline.audit.anomalies import AUDITS, Audit
from tidelog.pipeline.audit.context import Axis, Context, make_context
from tidelog.pipeline.audit.engines import Engine, Local
from tidelog.pipeline.audit.evidence import ABSENT, Evidence, Need
from tidelog.pipeline.audit.findings import Finding, FindingWriter, Tally
from tidelog.pipeline.audit.kernels.promises import apart, judge_early
from tidelog.pipeline.audit.kernels.replicas import too_short
from tidelog.pipeline.audit.partitions import Part, choose_log, end_by_reads, list_partitions
from tidelog.pipeline.audit.pieces import Piece, TablePiece, log_pieces, table_pieces
from tidelog.pipeline.audit.rounds.one import Summed, Unreadable, bring_together, judge_piece
from tidelog.pipeline.audit.rounds.two import SecondRound
from tidelog.pipeline.audit.timeline import axis_of, consumers_of
from tidelog.pipeline.audit.totals import (
    count_up,
    damage,
    exceptions,
    is_torn_tail,
    name_what_is_not_judged,
)
from tidelog.pipeline.audit.verdict import TABLE, Verdict
from tidelog.pipeline.audit.windows import unavailable
from tidelog.pipeline.errors import PipelineError, first_line

Progress = Callable[[float, int], object]
"""Called with the part of all work that is done and the rows read so far. Never goes back."""

_SILENT: Final = frozenset({Need.BROKER_LOGS, Need.LOG_FOLDERS})
"""What most evidence lacks: it is not said that audits which need it did not run."""
_SEEN_FIRST: Final = 0.75
"""Round one is about so much of the work."""


class NothingToJudge(PipelineError):
    """No audit can run on this evidence: nothing was written, and an earlier verdict stays."""


@dataclass(slots=True)
class Judgement:
    """A verdict, and what a report draws."""

    verdict: Verdict
    context: Context
    summed: Summed
    tally: Tally
    axis: Axis
    windows: list[Any] = field(default_factory=list)


def judge(
    evidence: Evidence,
    engine: Engine | None = None,
    *,
    audits: Sequence[Audit] = AUDITS,
    progress: Progress = lambda part, rows: None,
) -> Judgement:
    """Judge, and write what was found into the folder of the evidence. Raises `PipelineError`."""
    manifest = evidence.manifest
    verdict = Verdict(manifest.stage, manifest.state, manifest.generation)
    target = evidence.target
    job = _Job(evidence, engine or Local(), audits, progress)
    try:
        target.remove(TABLE)
        found = job.run(verdict)
    except BaseException as error:
        if not isinstance(error, NothingToJudge):
            target.remove(TABLE)
        if isinstance(error, PipelineError) or not isinstance(error, Exception):
            raise
        if isinstance(error, OSError) and error.filename and str(target) in str(error.filename):
            raise PipelineError(f"{target} cannot be written: {first_line(error)}") from error
        raise PipelineError(f"the evidence cannot be judged: {first_line(error)}") from error
    finally:
        target.remove(".scratch")
    verdict.write(target)
    return found


class _Job:
    def __init__(
        self, evidence: Evidence, engine: Engine, audits: Sequence[Audit], progress: Progress
    ) -> None:
        self._evidence = evidence
        self._engine = engine
        self._audits = audits
        self._tell = progress
        self._told = 0.0
        self._rows = 0
        self._damaged: dict[int, set[int]] = {}
        self._failed: set[str] = set()
        self._parts: list[Part] = []
        self._skewed: dict[int, int] = {}
        self._all: dict[str, list[Any]] = {}

    def _progress(self, part: float, rows: int) -> None:
        self._told = max(self._told, part)
        self._tell(self._told, rows)

    def run(self, verdict: Verdict) -> Judgement:
        runnable = self._runnable()
        context, summed = self._round_one(runnable)
        skewed = apart(context, [result.clocks for result in summed.ledgers])
        if skewed:  # what it found has causes, which are looked up by time
            self._skewed = skewed
            context, summed = self._round_one(runnable)
        evidence = self._evidence
        verdict.totals = count_up(evidence, summed)
        context.facts = frozenset(evidence.facts)
        runnable = self._runnable()
        context.audits = frozenset(audit.name for audit in runnable)
        second = SecondRound(
            context, self._engine, summed, self._all["logs"], self._all[LEDGER.name], self._all[READS.name]
        )
        second.run(lambda part: self._progress(_SEEN_FIRST + (1 - _SEEN_FIRST) * part, self._rows))
        writer = FindingWriter(context, "driver")
        windows = self._found_here(context, summed, second, skewed, writer)
        tally = Tally()
        for each in (*summed.tallies, *second.tallies, writer.close(always=True)):
            tally.merge(each)
        name_what_is_not_judged(evidence, context, summed, second)
        verdict.judged = [audit.name for audit in runnable if audit.name not in self._failed]
        verdict.sum_up(tally)
        self._note_unreadable(context, summed)
        verdict.could_not_judge(evidence.unjudged, evidence.unreadable)
        self._progress(1.0, self._rows)
        return Judgement(verdict, context, summed, tally, context.axis, windows)

    def _runnable(self) -> list[Audit]:
        found, facts, unheard = [], self._evidence.facts, []
        for audit in self._audits:
            missing = audit.needs - facts
            absent = [ABSENT[need] for need in sorted(missing - _SILENT)]
            if absent and not self._evidence.manifest.keeps_ledger:
                unheard.append(audit.name)
            elif absent and Need.LOG_FOLDERS not in missing:
                self._lacks(audit.name, joined(absent, "unjudged.and"))
            elif audit.needs <= facts and self._can_run(audit.name):
                found.append(audit)
        if unheard:
            self._evidence.lacks(
                Phrase.of("unjudged.unheard", audits=joined(map(_named, unheard), "unjudged.comma"))
            )
        if not found:
            reasons = self._evidence.unjudged or [Phrase("unjudged.nothing_there")]
            raise NothingToJudge(f"there is nothing to judge: {say(reasons[0])}")
        return found

    def _lacks(self, audit: str, why: Phrase) -> None:
        self._evidence.lacks(Phrase.of("unjudged.audit", audit=_named(audit), why=why))

    def _can_run(self, name: str) -> bool:
        """What needs one of several things."""
        facts, manifest = self._evidence.facts, self._evidence.manifest
        transactional = any(file.transactional for file in self._evidence.tables[LEDGER.name])
        if name == "unseen" and manifest.kept:
            self._lacks(name, Phrase("unjudged.may_be_read_later"))
            return False
        if name == "unseen" and Need.REPLICA_LOGS not in facts and manifest.reads_to_end:
            self._lacks(name, ABSENT[Need.REPLICA_LOGS])
            return False
        if name == "precommitted read" and Need.EVENTS not in facts:
            if not transactional:
                self._lacks(name, ABSENT[Need.EVENTS])
                return False
            self._evidence.lacks(Phrase.of("unjudged.early_reads", why=ABSENT[Need.EVENTS]))
        if name in ("write cycle", "circular information") and transactional and Need.FINAL_LOG not in facts:
            self._lacks(name, ABSENT[Need.FINAL_LOG])
            return False
        if name == "unavailable":
            return bool({Need.SENDS, Need.EVENTS} & facts) or len(self._audits) > 1
        return True

    # ------------------------------------------------------------ round one

    def _round_one(self, runnable: list[Audit]) -> tuple[Context, Summed]:
        evidence = self._evidence
        topics = evidence.manifest.topics
        places = {(t["name"], n) for t in topics for n in range(int(t.get("partitions") or 0))}
        self._parts = list_partitions(topics, evidence.replicas, places)
        for part in self._parts:
            for replica in part.replicas.values():
                if any(name in evidence.gone for _, name in replica.files):
                    self._damaged.setdefault(part.number, set()).add(replica.broker)
        while True:
            found = self._try_round_one(frozenset(audit.name for audit in runnable))
            if found is not None:
                return found
            runnable = self._runnable()
            evidence.target.remove(TABLE)

    def _try_round_one(self, names: frozenset[str]) -> tuple[Context, Summed] | None:
        """None: something turned out to be damaged, and it must be done again without that."""
        evidence = self._evidence
        for part in self._parts:
            choose_log(part, self._damaged.get(part.number, ()))
        logs = log_pieces(evidence, self._parts)
        ledger, reads = table_pieces(evidence, LEDGER.name), table_pieces(evidence, READS.name)
        self._all = {"logs": logs, LEDGER.name: ledger, READS.name: reads}
        context = make_context(evidence, self._parts, axis_of(evidence), consumers_of(evidence)[0])
        if self._skewed:
            context.histories = {n: h.by_clients_clock(self._skewed) for n, h in context.histories.items()}
        context.audits = names
        pieces: list[Piece] = [*logs, *ledger, *reads]
        self._weights = [piece.bytes + 1 for piece in pieces]
        self._rows = 0
        first: list[Any] = []
        unseen = [part for part in self._parts if part.broker is None]
        if unseen and Need.FINAL_READ in evidence.facts:
            first = self._run(context, reads, 0)
            if self._left_out(first):
                return None
            ends: dict[int, tuple[int, int]] = {}
            for result in first:
                for number, (low, high) in result.final.items():
                    a, z = ends.get(number, (low, high))
                    ends[number] = (min(a, low), max(z, high))
            for part in unseen:
                low_high = ends.get(part.number)
                if low_high is not None or part.told_end is not None:
                    end_by_reads(part, *(low_high or (None, None)))
        context.committed = self._committed(context, [*logs, *reads], ledger)
        rest = [*logs, *ledger] if first else pieces
        results = self._run(context, rest, len(reads) if first else 0)
        if self._left_out(results):
            return None
        of_logs, results = results[: len(logs)], results[len(logs) :]
        of_ledger, of_reads = results[: len(ledger)], first or results[len(ledger) :]
        summed = bring_together(context, of_logs, of_ledger, of_reads)
        return None if self._chosen_are_damaged(context, summed) else (context, summed)

    def _run(self, context: Context, pieces: Sequence[Piece], done: int) -> list[Any]:
        total = sum(self._weights)
        before = sum(self._weights[-done:]) if done else 0

        def tell(count: int) -> None:
            share = (before + sum(piece.bytes + 1 for piece in pieces[:count])) / max(total, 1)
            self._progress(_SEEN_FIRST * share, self._rows)

        results = self._engine.run(judge_piece, context, pieces, tell)
        self._rows += sum(getattr(result, "rows", 0) for result in results)
        return results

    def _left_out(self, results: Collection[Any]) -> bool:
        broken = {result.name: result.why for result in results if isinstance(result, Unreadable)}
        if broken:
            self._evidence.without(broken.keys(), broken)
        return bool(broken)

    def _chosen_are_damaged(self, context: Context, summed: Summed) -> bool:
        again = False
        for problem in summed.problems:
            if is_torn_tail(context, problem):
                continue
            known = self._damaged.setdefault(problem.part, set())
            again |= problem.broker not in known and context.parts[problem.part].broker == problem.broker
            known.add(problem.broker)
        return again

    def _committed(
        self, context: Context, shown: Sequence[Piece], ledger: Sequence[TablePiece]
    ) -> frozenset[str]:
        """Transactions in doubt of which a value was seen: they committed."""
        mine = [piece for piece in ledger if piece.transactional]
        if not mine:
            return frozenset()
        found = self._engine.run(transactions.doubtful, context, mine)
        keys = np.concatenate([keys for keys, _ in found])
        if not len(keys):
            return frozenset()
        names = [name for _, listed in found for name in listed]
        doubts = transactions.Doubts(context, np.unique(keys))
        seen = np.unique(np.concatenate(self._engine.run(transactions.seen, doubts, shown)))
        at = np.isin(keys, seen)
        return frozenset(names[index] for index in np.flatnonzero(at).tolist())

    # ------------------------------------------------------------ what the driver finds

    def _found_here(
        self,
        context: Context,
        summed: Summed,
        second: SecondRound,
        skewed: Mapping[int, int],
        writer: FindingWriter,
    ) -> list[Any]:
        evidence = self._evidence
        writer.add_all(second.found)
        writer.add_all(damage(context, summed))
        if Need.REPLICA_LOGS in evidence.facts:
            writer.add_all(too_short(context.parts))
        if Need.LOG_FOLDERS in evidence.facts:
            with self._by_itself("too few copies", "unclean election", "hanging transaction"):
                writer.add_all(self._in_log_folders(context))
        with self._by_itself("broker exception"):
            writer.add_all(exceptions(evidence))
        self._judge_clocks(context, summed, skewed, writer)
        with self._by_itself("write cycle", "circular information"):
            self._judge_transactions(context, second, writer)
        windows: list[Any] = []
        with self._by_itself("unavailable"):
            kinds = evidence.events["event"]
            states = evidence.events.filter(pc.equal(kinds, "partition_state_written")).to_pylist()
            windows += unavailable(context, evidence, states, [r.seconds for r in summed.ledgers])
        writer.add_all(windows)
        return windows

    def _in_log_folders(self, context: Context) -> Iterator[Finding]:
        """What the files of imported log folders show beyond their records."""
        evidence, parts = self._evidence, context.parts
        yield from log_folders.cut_off(parts)
        yield from log_folders.holes(parts, evidence.replicas)
        assigned = {
            (topic["name"], int(partition)): len(brokers)
            for topic in evidence.manifest.topics
            for partition, brokers in dict(topic.get("assigned") or {}).items()
        }
        yield from log_folders.too_few(parts, assigned, self._damaged)
        kinds = pa.array(("partition_state_written", "became_leader", "truncated"))
        happened = evidence.events.filter(pc.is_in(evidence.events["event"], value_set=kinds)).to_pylist()
        yield from log_folders.unclean(parts, evidence.replicas, happened)
        now_ms = (evidence.manifest.ended_us or 0) // 1000
        yield from log_folders.hanging(parts, evidence.transactions, now_ms)

    @contextmanager
    def _by_itself(self, *audits: str) -> Iterator[None]:
        """One that fails leaves the others: it is named as not judged, with the reason in one line."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            self._failed.update(audits)
            for name in audits:
                self._lacks(name, Phrase.of("unjudged.failed", error=first_line(error)))

    def _judge_clocks(
        self, context: Context, summed: Summed, skewed: Mapping[int, int], writer: FindingWriter
    ) -> None:
        evidence = self._evidence
        kept, unjudged = judge_early(context, summed.early, summed.early_count, skewed)
        writer.add_all(kept)
        for said in unjudged:
            evidence.lacks(said)
        promised = sum(result.judged.promised for result in summed.ledgers)
        judged = sum(result.judged.judged for result in summed.ledgers)
        if promised > judged and "acknowledged below promise" in context.audits:
            evidence.lacks(Phrase.of("unjudged.promises", count=promised - judged, all=promised))

    def _judge_transactions(self, context: Context, second: SecondRound, writer: FindingWriter) -> None:
        pieces = [
            piece for name in (LEDGER.name, READS.name) for piece in self._all[name] if piece.transactional
        ]
        if not any(piece.table == LEDGER.name for piece in pieces):
            return
        evidence = self._evidence
        if sum(piece.rows for piece in pieces) > transactions.ROWS_MAX:
            evidence.lacks(Phrase.of("unjudged.cycles", most=transactions.ROWS_MAX))
            return
        sends: list[transactions.Step] = []
        reads: list[transactions.Step] = []
        for table, steps in self._engine.run(transactions.steps_of, context, pieces):
            (sends if table == LEDGER.name else reads).extend(steps)
        if Need.READS in evidence.facts:
            writer.add_all(transactions.its_own(sends, reads))
        if Need.FINAL_LOG in evidence.facts:
            found, unjudged = transactions.circles(context, sends, reads, second.real_offset)
            writer.add_all(found)
            for said in unjudged:
                evidence.lacks(said)

    def _note_unreadable(self, context: Context, summed: Summed) -> None:
        """Partitions that acknowledged something, whose records exist and cannot be read on any replica."""
        promised = (
            set().union(*(result.acknowledged for result in summed.ledgers)) if summed.ledgers else set()
        )
        problems = sorted(summed.problems, key=lambda problem: problem.order)
        for part in context.parts:
            if part.number in promised and part.replicas and part.broker is None:
                why = next((each.damage.words for each in problems if each.part == part.number), None)
                files = [name for r in part.replicas.values() for _, name in r.files]
                gone = [name for name in files if name in self._evidence.gone]
                said: Phrase | str = why or (
                    Phrase.of("unjudged.file_gone", file=gone[0]) if gone else Phrase("unjudged.no_candidate")
                )
                place = f"{part.topic}-{part.partition}"
                self._evidence.cannot_read(Phrase.of("unjudged.unreadable", partition=place, why=said))


def _named(audit: str) -> Phrase:
    return Phrase(f"anomaly.{audit}")
