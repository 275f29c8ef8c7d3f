"""What the log folders of a cluster show by themselves, without a ledger of what was acknowledged.

Files say more about a replica than where its records are. Its checkpoint of high watermarks says how far it
had committed records; its segments say where they begin and end; markers say which transactions ended; what
controllers wrote says how leaders were chosen. All of it is small, and judged on the driver.

Rules of the file: a high watermark is read before the segment files are copied, so a log that ends below its
own one lost records, however long the copying took. Replicas are not compared by their ends alone: those of a
running cluster are copied one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from tidelog.core.reasons import ElectionKind
from tidelog.evidence.importers.kafka.coordinator_log import ONGOING
from tidelog.narrate.phrasebook import Phrase, joined
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Circumstance, Finding
from tidelog.pipeline.audit.kernels.replicas import SHORT_MAX
from tidelog.pipeline.audit.partitions import Part, Place, Replica

Row = Mapping[str, Any]

_UNCLEAN: Final = frozenset({ElectionKind.UNCLEAN, ElectionKind.LAST_KNOWN_LEADER})


# ---------------------------------------------------------------- copies


def cut_off(parts: Iterable[Part]) -> Iterator[Finding]:
    """Replicas that end below their own high watermark."""
    for part in parts:
        for broker, replica in sorted(part.replicas.items()):
            short = replica.high_watermark - replica.end
            told = replica.in_sync and part.broker is not None and part.end - replica.end > SHORT_MAX
            if short > 0 and not told and not replica.end_is_open:
                key = "detail.cut_off" if replica.files else "detail.log_lost"
                facts = {"end": replica.end, "mark": replica.high_watermark, "count": short}
                yield Finding(
                    "missing copy",
                    VIOLATION,
                    part.number,
                    replica.end,
                    broker=broker,
                    count=short,
                    detail=Phrase(key, {"broker": broker, **facts}),
                )


def holes(parts: Iterable[Part], rows: Iterable[Row]) -> Iterator[Finding]:
    """Segments that are missing between others. Where another replica holds the records, comparing replicas
    finds those that one in sync lacks; here are the others."""
    spans: dict[Place, dict[int, list[tuple[int, int]]]] = {}
    for row in rows:
        if row.get("end_offset") is not None:
            of_part = spans.setdefault((row["topic"], row["partition"]), {})
            of_part.setdefault(row["broker"], []).append((row["base_offset"], row["end_offset"]))
    for part in parts:
        if part.compacted:
            continue
        of_part = spans.get(part.place, {})
        for broker, mine in sorted(of_part.items()):
            mine.sort()
            for (_, end), (base, _) in pairwise(mine):
                elsewhere = any(_holds(each, end, base) for other, each in of_part.items() if other != broker)
                compared = elsewhere and part.replicas[broker].in_sync is not False and end < part.end
                if end < base and not compared:
                    yield _hole(part, broker, end, base, elsewhere)


def _holds(spans: Sequence[tuple[int, int]], low: int, high: int) -> bool:
    return any(base <= low and high <= end for base, end in spans) or (
        sum(max(0, min(end, high) - max(base, low)) for base, end in spans) >= high - low
    )


def _hole(part: Part, broker: int, low: int, high: int, elsewhere: bool) -> Finding:
    key = "detail.segment_missing_here" if elsewhere else "detail.segment_missing"
    return Finding(
        "missing copy",
        VIOLATION,
        part.number,
        low,
        broker=broker,
        count=high - low,
        detail=Phrase.of(key, broker=broker, first=low, last=high - 1),
    )


def too_few(
    parts: Iterable[Part], assigned: Mapping[Place, int], damaged: Mapping[int, set[int]]
) -> Iterator[Finding]:
    """Partitions of which fewer whole replicas exist than `min.insync.replicas`, if all are here."""
    for part in parts:
        wanted = min(part.min_insync, assigned.get(part.place, 0))
        if len(part.replicas) < assigned.get(part.place, 1 << 30):
            continue
        whole = [
            broker
            for broker, replica in part.replicas.items()
            if (replica.end >= replica.high_watermark or replica.end_is_open)
            and broker not in damaged.get(part.number, ())
        ]
        if len(whole) < wanted:
            yield Finding(
                "too few copies",
                VIOLATION,
                part.number,
                count=len(whole),
                detail=Phrase.of(
                    "detail.too_few_copies",
                    count=len(whole),
                    all=len(part.replicas),
                    least=part.min_insync,
                ),
            )


# ---------------------------------------------------------------- elections


def unclean(parts: Sequence[Part], rows: Sequence[Row], events: Iterable[Row]) -> Iterator[Finding]:
    """Elections of a replica that was neither in sync nor eligible, and what is known to be gone by them."""
    numbers = {part.place: part for part in parts}
    elected: dict[tuple[Place, int], Row] = {}
    starts: dict[tuple[Place, int], int] = {}
    cuts: dict[Place, list[Row]] = {}
    for row in events:
        place = (row["topic"], row["partition"])
        match row["event"]:
            case "partition_state_written" if row["rule"] in _UNCLEAN:
                elected.setdefault((place, row["leader_epoch"]), row)
            case "became_leader":
                starts.setdefault((place, row["leader_epoch"]), row["log_end_offset"])
            case "truncated":
                cuts.setdefault(place, []).append(row)
    epochs = {(row["topic"], row["partition"], row["broker"]): row["epochs"] or () for row in rows}
    for (place, epoch), row in sorted(elected.items(), key=lambda item: item[1]["time_ms"]):
        part = numbers.get(place)
        if part is not None:
            yield _unclean(part, row, starts.get((place, epoch)), cuts.get(place, ()), epochs)


def _unclean(
    part: Part,
    row: Row,
    start: int | None,
    cuts: Iterable[Row],
    epochs: Mapping[tuple[str, int, int], Sequence[int]],
) -> Finding:
    epoch = row["leader_epoch"]
    last_known = row["rule"] == ElectionKind.LAST_KNOWN_LEADER
    key = "detail.last_known_elected" if last_known else "detail.unclean_elected"
    elected = Phrase.of(key, broker=row["leader"], epoch=epoch)
    told = [elected if start is None else Phrase.of("detail.elected_at", elected=elected, offset=start)]
    lost = committed = 0
    if start is not None:
        for replica in part.replicas.values():
            # A replica that has no record of this epoch or a later one is still on the branch of before.
            older = not any(each >= epoch for each in epochs.get((*part.place, replica.broker), ()))
            if older and replica.end > start:
                lost = max(lost, replica.end - start)
                committed = max(committed, replica.high_watermark - start)
                held = replica.end - start
                told.append(Phrase.of("detail.still_holds", broker=replica.broker, count=held))
        for cut in cuts:
            if cut["log_end_offset"] == start and cut["time_ms"] >= row["time_ms"]:
                gone = cut["previous_log_end_offset"] - start
                lost = max(lost, gone)
                told.append(Phrase.of("detail.truncated_records", broker=cut["broker"], count=gone))
    if committed > 0:
        told.append(Phrase.of("detail.had_been_committed", count=committed))
    return Finding(
        "unclean election",
        VIOLATION if committed > 0 else NOTICE,
        part.number,
        start,
        epoch,
        broker=row["leader"],
        time_us=row["time_ms"] * 1000,
        count=max(lost, committed) or None,
        detail=joined(told, "detail.then"),
        circumstance=Circumstance.LAST_KNOWN_LEADER if last_known else None,
    )


# ---------------------------------------------------------------- transactions


def hanging(parts: Iterable[Part], rows: Iterable[Row], now_ms: int) -> Iterator[Finding]:
    """Open transactions: hanging is one that its coordinator has ended, or does not know."""
    by_part: dict[Place, dict[int, list[Row]]] = {}
    for row in rows:
        of_part = by_part.setdefault((row["topic"], row["partition"]), {})
        of_part.setdefault(row["broker"], []).append(row)
    for part in parts:
        of_part = by_part.get(part.place, {})
        # The log that counts shows it best; a follower may not have the marker yet.
        chosen = part.broker if part.broker is not None else min(of_part, default=-1)
        for row in of_part.get(chosen, ()):
            yield _hanging(part, row, now_ms)


def _hanging(part: Part, row: Row, now_ms: int) -> Finding:
    state, replica = row["coordinator_state"], part.replicas.get(row["broker"])
    name = row["transactional_id"] or f"producer {row['producer_id']}"
    facts = {
        "transaction": name,
        "first": row["first_offset"],
        "last": row["last_offset"],
        "count": _behind(part, replica, row["first_offset"]),
    }
    kept = row["coordinator_epoch"] == row["producer_epoch"] and row["coordinator_lists_partition"]
    overdue = row["timeout_ms"] is not None and now_ms - row["last_ms"] > 2 * row["timeout_ms"]
    if state is None:
        severity, circumstance = NOTICE, Circumstance.COORDINATOR_ABSENT
        said = Phrase("detail.coordinator_absent")
    elif state in ONGOING and kept and not overdue:
        severity, circumstance = NOTICE, Circumstance.TRANSACTION_OPEN
        said = Phrase.of("detail.coordinator_says", state=state)
    else:
        severity, circumstance = VIOLATION, Circumstance.TRANSACTION_HANGS
        key = "detail.coordinator_says_overdue" if overdue else "detail.coordinator_says"
        said = Phrase.of(key, state=state)
    return Finding(
        "hanging transaction",
        severity,
        part.number,
        row["first_offset"],
        broker=row["broker"],
        producer=name,
        time_us=row["last_ms"] * 1000,
        count=row["last_offset"] - row["first_offset"] + 1,
        detail=Phrase("detail.hanging", {**facts, "said": said}),
        circumstance=circumstance,
    )


def _behind(part: Part, replica: Replica | None, offset: int) -> int:
    end = part.end if replica is None else max(part.end, replica.high_watermark)
    return max(end - offset, 0)
