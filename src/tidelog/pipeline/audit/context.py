"""What every kernel knows besides its piece: partitions, what happened to them, and the clocks. It is
made on the driver, small, and travels to all workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.folder import Manifest
from tidelog.evidence.tables import LEDGER, READS, RECORDS
from tidelog.pipeline.audit.causes import explain
from tidelog.pipeline.audit.causes.history import (
    NOTHING,
    Commit,
    Death,
    Fault,
    History,
    deaths,
    done,
    histories,
)
from tidelog.pipeline.audit.evidence import Evidence, Need
from tidelog.pipeline.audit.findings import Finding
from tidelog.pipeline.audit.kernels.hashes import (
    Ints,
    Words,
    coded,
    combined,
    flags,
    ints,
    runs_of,
    text_hashes,
)
from tidelog.pipeline.audit.partitions import Part
from tidelog.pipeline.files import Place

MOVED: Final = "high_watermark_advanced"
STOPPED: Final = "process_stopped"
_HAPPENED: Final = (
    "became_leader",
    "became_follower",
    "truncated",
    "log_recovered",
    "partition_state_written",
    "isr_changed",
)


Vanished = Mapping[tuple[str, Any, int], tuple[int, str]]
"""Consumer, partition and place → when a broker answered that the place is gone, or its group may have moved
it, and which of the two."""


@dataclass(slots=True, frozen=True)
class Axis:
    """Moments of the report: ms after the load began."""

    start_us: int
    span_ms: int
    bucket_ms: int

    def at(self, times_us: Ints) -> Ints:
        """The beginning of the bucket of each time; what lies outside of the span, at its edge."""
        found = (times_us - self.start_us) // (self.bucket_ms * 1000) * self.bucket_ms
        last = (self.span_ms - 1) // self.bucket_ms * self.bucket_ms
        bounded: Ints = np.clip(found, 0, last)
        return bounded

    def bucket(self, time_us: int) -> int:
        """The same of one time."""
        found = (time_us - self.start_us) // (self.bucket_ms * 1000) * self.bucket_ms
        return max(min(found, (self.span_ms - 1) // self.bucket_ms * self.bucket_ms), 0)

    def ms(self, time_us: int) -> int:
        """How long after the load began; what lies outside of the span, at its edge."""
        return min(max((time_us - self.start_us) // 1000, 0), self.span_ms)


@dataclass(slots=True)
class Moves:
    """The moves of one partition's high watermark, in the order of time, as columns."""

    at_us: Ints
    from_offset: Ints
    to_offset: Ints
    in_sync: Ints
    """How many replicas counted."""
    broker: Ints
    epoch: Ints
    isr: list[str]


@dataclass(slots=True)
class Context:
    place: Place
    target: Place
    parts: list[Part]
    axis: Axis
    began_us: int
    slack_us: int
    final_reader: str | None
    reads_to_end: bool
    kept: bool
    """Whether applications keep the ledger: see `Manifest.kept`."""
    facts: frozenset[Need]
    histories: dict[int, History]
    moves: Mapping[int, Moves]
    known_marks: Mapping[int, tuple[Ints, Ints]]
    """The highest watermark that a leader of the partition had reported by a time: times, and watermarks."""
    enough: Mapping[int, Ints]
    """When a partition had as many replicas in sync as were promised, in order."""
    deaths: list[Death]
    ends_us: Ints
    """When brokers were killed, in order: what they did in their last moments may not be recorded."""
    faults: list[Fault]
    vanished: Vanished
    followed: frozenset[str] = frozenset()
    """Consumers that wrote down every read: each read begins where the one before it ended."""
    shown_consumers: tuple[str, ...] = ()
    committed: frozenset[str] = frozenset()
    """Transactions in doubt of which something was seen."""
    audits: frozenset[str] = frozenset()
    """What is looked for; other findings are dropped."""
    keyed_sends: bool = True
    """Whether sends tell keys: then one without a key was sent without one. If neither they nor reads do, the
    keys of the log are compared with nothing."""
    keyed_reads: bool = True
    stamped: bool = False
    """Whether reads and logs have timestamps and, if the log has any, leader epochs."""
    scratch: str = ".scratch"
    _numbers: dict[tuple[str | None, int], int] = field(default_factory=dict)

    def explain(self, finding: Finding) -> dict[str, Any]:
        history = NOTHING if finding.part is None else self.histories.get(finding.part, NOTHING)
        return explain(finding, history, self.deaths, self.faults, self.began_us)

    def moment_of(self, time_us: int | None) -> int | None:
        return None if time_us is None else self.axis.bucket(time_us)

    def key_hashes(self, keys: Any) -> Words:
        """For sums of records."""
        keyed = self.keyed_sends or self.keyed_reads
        return text_hashes(keys) if keyed else np.zeros(len(keys), np.uint64)

    def as_read(self, content: Words, table: Any) -> Words:
        """For sums of records: with what only logs and reads have."""
        if not self.stamped:
            return content
        return combined(content, ints(table["timestamp_ms"]), ints(table["leader_epoch"]))

    def numbers(self, table: Any) -> Ints:
        """The number of each row's partition; -1: it is not known."""
        if not self._numbers:
            self._numbers.update({part.place: part.number for part in self.parts})
        return _numbered(table, self._numbers)

    def limits(self) -> tuple[Ints, Ints]:
        """Start and end of each partition, with one more for those that are not known."""
        starts = np.array([*(part.start for part in self.parts), 0], np.int64)
        ends = np.array([*(part.end for part in self.parts), -1], np.int64)
        return starts, ends


def _numbered(table: Any, numbers: Mapping[Any, int]) -> Ints:
    """The number of each row's partition; -1: it is not known."""
    codes, names = coded(table["topic"])
    partitions = ints(table["partition"])
    pairs, rows = np.unique((codes << 32) | (partitions & 0xFFFFFFFF), return_inverse=True)
    known = [numbers.get((names[pair >> 32], pair & 0xFFFFFFFF), -1) for pair in pairs.tolist()]
    found: Ints = np.array(known, np.int64).reshape(-1)[rows.reshape(-1)]
    return found


def make_context(evidence: Evidence, parts: list[Part], axis: Axis, consumers: tuple[str, ...]) -> Context:
    manifest = evidence.manifest
    numbers = {part.place: part.number for part in parts}
    kinds = evidence.events["event"]
    happened = evidence.events.filter(pc.is_in(kinds, value_set=pa.array(_HAPPENED))).to_pylist()
    moves = _moves(evidence.events.filter(pc.equal(kinds, MOVED)), numbers)
    found = histories(happened, numbers, manifest.schema_version)
    died = deaths(evidence.faults)
    for number, moved in moves.items():
        found.setdefault(number, History()).commits = _commits(moved)
    return Context(
        place=evidence.place,
        target=evidence.target,
        parts=parts,
        axis=axis,
        began_us=manifest.started_us if manifest.load_started_us is None else manifest.load_started_us,
        slack_us=evidence.slack_us,
        final_reader=manifest.final_reader,
        reads_to_end=manifest.reads_to_end,
        kept=manifest.kept,
        facts=frozenset(evidence.facts),
        histories=found,
        moves=moves,
        known_marks=_known_marks(moves, happened, numbers),
        enough=_enough(happened, numbers, parts),
        deaths=died,
        ends_us=np.sort(
            np.concatenate((_ends(evidence.events, died), np.array([d.at_us for d in died], np.int64)))
        ),
        faults=done(evidence.faults),
        vanished=vanished_places(evidence.client_events, numbers.get),
        followed=frozenset(consumer_names(manifest)),
        stamped=bool(consumer_names(manifest)) and not evidence.tables[RECORDS.name],
        shown_consumers=consumers,
        keyed_sends=any(file.keyed for file in evidence.tables[LEDGER.name]),
        keyed_reads=any(file.keyed for file in evidence.tables[READS.name]),
    )


def consumer_names(manifest: Manifest) -> list[str]:
    """Of a trial; without the final reader, which reads everything again after the load."""
    names = sorted(c["name"] for c in manifest.clients if c.get("role") == "consumer" and "name" in c)
    return [name for name in names if name != manifest.final_reader]


def vanished_places(
    client_events: Iterable[Mapping[str, Any]], number_of: Callable[[Any], Any]
) -> dict[tuple[str, Any, int], tuple[int, str]]:
    """Of what consumers noticed; partitions are named by `number_of`."""
    found: dict[tuple[str, Any, int], tuple[int, str]] = {}
    for row in client_events:
        known = number_of((row.get("topic"), row.get("partition")))
        lost_place = row["event"] in ("out_of_range", "rebalanced") and row.get("offset") is not None
        if known is not None and lost_place:
            key = (row["client"], known, row["offset"])
            found[key] = min(found.get(key, (1 << 62, "")), (row["time_us"], row["event"]))
    return found


def _moves(events: Any, numbers: Mapping[tuple[str, int], int]) -> dict[int, Moves]:
    if not events.num_rows:
        return {}
    part = _numbered(events, numbers)
    at = ints(events["time_ms"]) * 1000
    joined = pc.binary_join(events["isr"].cast(pa.list_(pa.string())), ", ").fill_null("")
    sizes = ints(pc.list_value_length(events["isr"]), 0)
    before, after = (ints(events[name], 0) for name in ("previous_high_watermark", "high_watermark"))
    brokers, epochs = ints(events["broker"]), ints(events["leader_epoch"])
    words = joined.to_pylist()
    order = np.lexsort((at, part))
    found = {}
    for number in np.unique(part[part >= 0]).tolist():
        mine = order[np.searchsorted(part[order], number) : np.searchsorted(part[order], number, "right")]
        isr = [words[row] for row in mine.tolist()]
        found[number] = Moves(
            at[mine], before[mine], after[mine], sizes[mine], brokers[mine], epochs[mine], isr
        )
    return found


def _commits(moves: Moves) -> list[Commit]:
    """The moves of one epoch with the same replicas in sync are one stretch."""
    found: dict[tuple[int, str], Commit] = {}
    columns = (moves.at_us, moves.from_offset, moves.to_offset, moves.epoch)
    for at, low, high, epoch, isr in zip(*(column.tolist() for column in columns), moves.isr, strict=True):
        before = found.get((epoch, isr))
        members = tuple(int(each) for each in isr.split(", ") if each)
        if before is not None:
            low, high = min(low, before.from_offset), max(high, before.to_offset)
            at = min(at, before.at_us)
        found[epoch, isr] = Commit(epoch, low, high, members, at)
    return sorted(found.values(), key=lambda c: (c.epoch, c.from_offset, c.to_offset, c.isr))


def _known_marks(
    moves: Mapping[int, Moves], happened: list[dict[str, Any]], numbers: Mapping[tuple[str, int], int]
) -> dict[int, tuple[Ints, Ints]]:
    """Only of partitions with a reported move. What the next leader may serve it knew as a follower: it
    says so when it becomes leader."""
    leaders: dict[int, list[tuple[int, int]]] = {}
    for row in happened:
        number = numbers.get((row["topic"], row["partition"]))
        if row["event"] == "became_leader" and number is not None:
            mark = max(row["high_watermark"] or 0, row["previous_high_watermark"] or 0)
            leaders.setdefault(number, []).append((row["time_ms"] * 1000, mark))
    found = {}
    for number, moved in moves.items():
        others = leaders.get(number, [])
        at = np.concatenate((moved.at_us, np.array([a for a, _ in others], np.int64)))
        mark = np.concatenate((np.maximum(moved.from_offset, moved.to_offset), [m for _, m in others]))
        order = np.argsort(at, kind="stable")
        found[number] = (at[order], np.maximum.accumulate(mark[order].astype(np.int64)))
    return found


def _ends(events: Any, noted: list[Death]) -> Ints:
    """The deaths that faults noted, and the last event of each process that did not stop by itself and that
    another one of its broker followed. A fault is noted when it begins, which may be long before it kills."""
    broker, started = ints(events["broker"]), ints(events["process_start_ms"])
    known = np.flatnonzero((broker >= 0) & (started >= 0))
    order = known[np.lexsort((started[known], broker[known]))]
    first, last = runs_of(broker[order], started[order])
    begun = np.array([death.at_us for death in noted], np.int64)
    if not len(first):
        return np.sort(begun)
    ended = np.maximum.reduceat(ints(events["time_ms"])[order], first) * 1000
    by_itself = np.maximum.reduceat(flags(pc.equal(events["event"], STOPPED))[order], first)
    again = np.append(broker[order[first[1:]]] == broker[order[last[:-1]]], False)
    return np.sort(np.concatenate((begun, ended[again & ~by_itself])))


def _enough(
    happened: list[dict[str, Any]], numbers: Mapping[tuple[str, int], int], parts: list[Part]
) -> dict[int, Ints]:
    """By the states of a partition. A move of its watermark says only who had the records of that move."""
    found: dict[int, list[int]] = {}
    for row in happened:
        number = numbers.get((row["topic"], row["partition"]))
        if (
            number is not None
            and row["event"] in ("isr_changed", "partition_state_written", "became_leader")
            and row["isr"] is not None
            and len(row["isr"]) >= parts[number].min_insync
        ):
            found.setdefault(number, []).append(row["time_ms"] * 1000)
    return {number: np.array(sorted(times), np.int64) for number, times in found.items()}
