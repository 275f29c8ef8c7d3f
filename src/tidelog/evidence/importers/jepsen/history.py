"""Convert a history of Jepsen's Kafka workload into a folder of evidence.

==================  ======================================================================================
in the history      in the evidence
==================  ======================================================================================
process 7           the producer ``p7`` and the consumer ``c7``
key 11, key :x      partition 11 of the topic ``jepsen``; partition 0 of the topic ``x``
ok, fail, info      the outcomes ok, failed, unknown; a send that was never completed is unknown, too
several steps, txn  a transaction, named by the index of its completion in the history
(not in it)         the final reader ``everyone``: what all processes polled, the latest value of each offset
==================  ======================================================================================

Rules of the file:

* Memory holds the operations that are under way and one value for each offset, never the history.
* A log begins at 0 and is known up to the last record that any process polled. Acknowledged records behind
  that may exist, but no process read them (`Manifest.reads_to_end`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog._version import __version__
from tidelog.evidence.event_schema import Row
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.importers.jepsen.operations import (
    FAIL,
    INVOKE,
    NUMBERED,
    OK,
    HistoryError,
    Key,
    Op,
    Poll,
    SendOp,
    read_ops,
)
from tidelog.evidence.importers.jepsen.positions import Positions
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import CLIENT_EVENTS, LEDGER, READS

EVERYONE: Final = "everyone"
REBALANCED: Final = "rebalanced"
_OUTCOMES: Final = {OK: "ok", FAIL: "failed"}

Place = tuple[str, int]


@dataclass(slots=True)
class Imported:
    """The content of a history."""

    operations: int = 0
    sends: int = 0
    reads: int = 0
    transactions: int = 0
    keys: int = 0


def import_history(history: Path, path: Path, *, idempotent: bool = True) -> Imported:
    """Convert a history into a new folder of evidence. `idempotent`: whether its producers were idempotent.
    After an `EvidenceError` there is no folder."""
    manifest = Manifest(
        "foreign",
        versions={"tidelog": __version__},
        settings={
            "history": str(history),
            "final reader": f"{EVERYONE} is not a consumer: it holds what all processes polled",
            "keys": f"a number is a partition of the topic {NUMBERED}, a name a topic with one partition",
        },
        final_reader=EVERYONE,
        reads_to_end=False,
    )
    ops = read_ops(history)
    # Check that this can be a history before creating the folder.
    first = next(ops, None)
    if first is None:
        raise HistoryError(f"{history}: there is no send, poll or txn in it")
    folder = EvidenceFolder.create(path, manifest)
    try:
        importer = _Importer(folder, idempotent=idempotent)
        importer.take(first)
        for op in ops:
            importer.take(op)
        imported = importer.close()
    except BaseException:
        folder.discard()
        raise
    folder.release()
    return imported


class _Importer:
    def __init__(self, folder: EvidenceFolder, *, idempotent: bool) -> None:
        self._folder = folder
        self._idempotent = idempotent
        self._ledger, self._reads, self._events = (
            PartWriter(folder.path / table.name, table, seconds_max=float("inf"))
            for table in (LEDGER, READS, CLIENT_EVENTS)
        )
        self._under_way: dict[int, Op] = {}
        self._positions: defaultdict[int, Positions] = defaultdict(Positions)
        self._sequences: Counter[int] = Counter()
        self._polls: Counter[int] = Counter()
        self._logs: dict[Place, dict[int, str | None]] = {}
        """The latest value that any process polled, by partition and offset."""
        self._unplaced = 0
        self._first_us: int | None = None
        self._last_us = 0
        self._done = Imported()

    def take(self, op: Op) -> None:
        self._first_us = op.time_us if self._first_us is None else min(self._first_us, op.time_us)
        self._last_us = max(self._last_us, op.time_us)
        self._done.operations += 1
        if op.type == INVOKE:
            if (lost := self._under_way.pop(op.process, None)) is not None:
                self._write(lost, None)
            self._under_way[op.process] = op
            return
        invoked = self._under_way.pop(op.process, None)
        if op.is_choice:
            self._positions[op.process].choose(op)
            return
        if not op.steps and invoked is not None:
            op.steps = invoked.steps
        self._write(op if invoked is None else invoked, op)

    def close(self) -> Imported:
        for op in self._under_way.values():
            self._write(op, None)
        for row in self._everyone():
            self._reads.write(row)
        for writer in (self._ledger, self._reads, self._events):
            writer.close()
        manifest = self._folder.manifest
        manifest.topics = self._topics()
        manifest.state = COMPLETE
        manifest.started_us = manifest.load_started_us = self._first_us or 0
        manifest.ended_us = manifest.load_ended_us = self._last_us
        manifest.lacks("records behind the last one polled", "no process read to the end of the logs")
        if self._unplaced:
            manifest.lacks(f"{self._unplaced:,} polled records", "the history does not tell their offsets")
        for empty in (self._folder.events_journal, self._folder.journal, self._folder.logs):
            empty.rmdir()
        self._folder.write_manifest()
        self._done.keys = len(self._logs)
        return self._done

    # ------------------------------------------------------------ operations

    def _write(self, invoked: Op, completed: Op | None) -> None:
        """Write an operation and its completion; None: unknown."""
        op = invoked if completed is None else completed
        if op.is_choice:
            return
        transaction = f"t{op.number}" if op.is_transaction else None
        self._done.transactions += transaction is not None
        positions = self._positions[op.process]
        positions.begin(op)
        for step in op.steps:
            if isinstance(step, SendOp):
                self._send(step, invoked, completed, transaction)
            elif completed is not None:
                self._poll(step, completed, positions, transaction)
        if completed is not None:
            positions.end(completed)

    def _send(self, send: SendOp, invoked: Op, completed: Op | None, transaction: str | None) -> None:
        topic, partition = self._place(send.key)
        row: dict[str, Any] = {
            "producer": f"p{invoked.process}",
            "sequence": self._sequences[invoked.process],
            "topic": topic,
            "partition": partition,
            "value": send.value,
            "acks": -1,
            "idempotent": self._idempotent,
            "sent_us": invoked.time_us,
            "settled_us": None if completed is None else completed.time_us,
            "outcome": "unknown" if completed is None else _OUTCOMES.get(completed.type, "unknown"),
            "offset": send.offset,
            "error": None if completed is None else completed.error,
            "transaction": transaction,
        }
        self._ledger.write(row)
        self._sequences[invoked.process] += 1
        self._done.sends += 1

    def _poll(self, poll: Poll, op: Op, positions: Positions, transaction: str | None) -> None:
        number = self._polls[op.process]
        self._polls[op.process] += 1
        for key, records in poll.records.items():
            topic, partition = place = self._place(key)
            for offset, value in records:
                if offset is None:
                    self._unplaced += 1
                    continue
                waited, is_first = positions.move(key, offset)
                row = {
                    "consumer": f"c{op.process}",
                    "group": NUMBERED if positions.in_group else None,
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "value": value,
                    "read_us": op.time_us,
                    "poll": number,
                    "position_before": waited,
                    "position_after": offset + 1,
                    "transaction": transaction,
                }
                self._reads.write(row)
                self._logs[place][offset] = value
                self._done.reads += 1
                if is_first and positions.in_group and waited != offset:
                    self._events.write(_rebalanced(row))

    def _place(self, key: Key) -> Place:
        place = (NUMBERED, key) if isinstance(key, int) else (key, 0)
        self._logs.setdefault(place, {})
        return place

    # ------------------------------------------------------------ final read

    def _everyone(self) -> Iterator[Row]:
        for poll, ((topic, partition), log) in enumerate(sorted(self._logs.items())):
            for offset, value in sorted(log.items()):
                yield {
                    "consumer": EVERYONE,
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "value": value,
                    "read_us": self._last_us,
                    "poll": poll,
                    "position_before": offset,
                    "position_after": offset + 1,
                }

    def _topics(self) -> list[dict[str, Any]]:
        topics: dict[str, dict[str, Any]] = {}
        for (name, partition), log in sorted(self._logs.items()):
            topic = topics.setdefault(name, {"name": name, "partitions": 0, "starts": {}, "ends": {}})
            topic["partitions"] = partition + 1
            topic["starts"][str(partition)] = 0
            topic["ends"][str(partition)] = max(log, default=-1) + 1
        return list(topics.values())


def _rebalanced(read: Row) -> Row:
    """The group may have assigned the partition to another consumer in between, so a jump is not an
    anomaly."""
    return {
        "time_us": read["read_us"],
        "client": read["consumer"],
        "event": REBALANCED,
        "topic": read["topic"],
        "partition": read["partition"],
        "offset": read["position_before"],
        "detail": "a member of a group, which may have moved it",
    }
