"""How much evidence there is, and which of it no audit can judge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Evidence, Need, broker_logs
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Finding
from tidelog.pipeline.audit.kernels.hashes import STRETCH
from tidelog.pipeline.audit.kernels.log_piece import ReplicaDamage
from tidelog.pipeline.audit.rounds.one import Summed
from tidelog.pipeline.audit.rounds.two import SecondRound

_OUTCOMES: Final = ("ok", "failed", "unknown")
_EXCEPTION: Final = re.compile(r"^(?!  [ |]).*Traceback \(most recent call last\)|\bFatal (?:\w+ )?error\b")
"""A group of exceptions counts once: those inside it are drawn into it."""
_RAISED: Final = re.compile(r"^(?:  \| )?[\w.]+(?:Error|Exception|Interrupt|Exit|Warning|Group)\b.*")


def count_up(evidence: Evidence, found: Summed) -> dict[str, Any]:
    """Sends by outcome and by acks, records of each broker, reads of each consumer, faults by kind. A gap in
    a producer's numbers means that the ledger is not whole, which is noted."""
    done = Counter(str(row["kind"]) for row in evidence.faults if row["began_us"] is not None)
    totals: dict[str, Any] = {"sends": {}, "records": {}, "reads": {}, "faults": dict(done.most_common())}
    if found.reads:
        totals["reads"] = dict(sorted(found.reads.items()))
    if found.records:
        totals["records"] = {str(broker): count for broker, count in sorted(found.records.items())}
    if found.ledgers:
        totals["sends"] = _count_sends(evidence, found)
    return totals


def _count_sends(evidence: Evidence, found: Summed) -> dict[str, Any]:
    outcomes = dict.fromkeys(_OUTCOMES, 0)
    by_acks: dict[str, dict[str, int]] = {}
    seen: Counter[str | None] = Counter()
    lasts: dict[str | None, int] = {}
    for result in found.ledgers:
        for (producer, acks, _, outcome), count in result.totals.items():
            name = _OUTCOMES[outcome]
            outcomes[name] += count
            mine = by_acks.setdefault("all" if acks == -1 else str(acks), {})
            mine[name] = mine.get(name, 0) + count
            seen[producer] += count
        for producer, last in result.lasts.items():
            lasts[producer] = max(lasts.get(producer, -1), last)
    missing = {
        name: lasts[name] + 1 - count
        for name, count in sorted(seen.items(), key=lambda item: str(item[0]))
        if lasts[name] + 1 > count
    }
    if missing:
        evidence.facts.discard(Need.ALL_SENDS)
        named = ", ".join(f"{name} ({count:,})" for name, count in list(missing.items())[:5])
        evidence.lacks(Phrase.of("unjudged.gaps", count=sum(missing.values()), producers=named))
    clients = evidence.manifest.clients
    producers = {c["name"] for c in clients if c.get("role") == "producer" and "name" in c}
    if silent := sorted(producers - seen.keys()):
        evidence.facts.discard(Need.ALL_SENDS)
        evidence.lacks(Phrase.of("unjudged.silent_producers", producers=", ".join(silent[:5])))
    if unnamed := sum(result.unnamed for result in found.ledgers):
        evidence.lacks(Phrase.of("unjudged.without_value", count=unnamed))
    counted = {"total": sum(outcomes.values()), **outcomes, "by_acks": by_acks, "producers": len(seen)}
    if transactional := sum(result.transactional for result in found.ledgers):
        counted["in_transactions"] = transactional
    return counted


def name_what_is_not_judged(evidence: Evidence, context: Context, found: Summed, second: SecondRound) -> None:
    """What the audits passed over, as far as the evidence has any of it."""
    if found.unplaced_reads:
        evidence.lacks(Phrase.of("unjudged.unplaced_reads", count=found.unplaced_reads))
    if more := found.long_count - len(found.long_jumps):
        evidence.lacks(Phrase.of("unjudged.long_moves", count=more, offsets=STRETCH))
    ours = {broker["id"] for broker in evidence.manifest.brokers if broker.get("data_dir")}
    for part in context.parts:
        for broker in sorted(ours.intersection(part.isr) - part.replicas.keys()):
            place = f"{part.topic}-{part.partition}"
            evidence.lacks(Phrase.of("unjudged.absent_replica", broker=broker, partition=place))
    if Need.FINAL_LOG not in evidence.facts or Need.SENDS not in evidence.facts:
        return
    if second.unread:
        evidence.lacks(Phrase.of("unjudged.unread", count=second.unread))
    if second.repeated:
        evidence.lacks(Phrase.of("unjudged.repeated", count=second.repeated))
    for topic in sorted({part.topic for part in context.parts if part.compacted}):
        taken = sum(
            count for number, count in second.compacted.items() if context.parts[number].topic == topic
        )
        evidence.lacks(Phrase.of("unjudged.compacted", topic=topic, count=taken))
    deleted = Counter(
        part.topic
        for part in context.parts
        if part.known and part.start > 0 and not (context.kept and part.broker is None)
    )
    for topic, partitions in sorted(deleted.items()):
        evidence.lacks(Phrase.of("unjudged.deleted", topic=topic, count=partitions))
    if unknown := len(set().union(*(result.unplaced for result in found.ledgers))):
        said = Phrase.of("unjudged.unknown_end", count=unknown)
        promised = any(result.unplaced_promises for result in found.ledgers)
        (evidence.cannot_read if promised else evidence.lacks)(said)


# ---------------------------------------------------------------- what is broken on disk


def is_torn_tail(context: Context, found: ReplicaDamage) -> bool:
    """A file that ends inside a batch above the end of its log was being written when its broker stopped."""
    end, base = context.parts[found.part].replicas[found.broker].end, found.damage.base
    return found.damage.torn and (base is None or base >= end)


def damage(context: Context, found: Summed) -> Iterator[Finding]:
    """Places of segment files that cannot be read."""
    for problem in sorted(found.problems, key=lambda problem: problem.order):
        if is_torn_tail(context, problem):
            continue
        part, broker, base = context.parts[problem.part], problem.broker, problem.damage.base
        above = base is not None and part.known and base >= part.end
        yield Finding(
            "damaged",
            NOTICE if above else VIOLATION,
            part.number,
            base,
            broker=broker,
            detail=Phrase.of(
                "detail.unreadable",
                broker=broker,
                partition=f"{part.topic}-{part.partition}",
                why=problem.damage.words,
            ),
        )


def exceptions(evidence: Evidence) -> Iterator[Finding]:
    """Tracebacks and fatal errors in the log files of brokers."""
    for broker, name in sorted(broker_logs(evidence.place).items()):
        try:
            lines = evidence.place.read(name).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        starts = [number for number, line in enumerate(lines) if _EXCEPTION.search(line)]
        if not starts:
            continue
        last = lines[starts[-1]]
        for line in lines[starts[-1] + 1 : starts[-1] + 200]:
            if _RAISED.match(line):
                last = line
                break
        yield Finding(
            "broker exception",
            NOTICE,
            None,
            broker=broker,
            count=len(starts),
            detail=Phrase.of("detail.logged", file=name, line=last.strip()[:300]),
        )
