"""Evidence written by hand, one anomaly at a time. Each case is a topic of its own, so that one job judges
them all; a case that says nothing else is clean: acknowledged, replicated, committed, read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, StateWriteReason, WatermarkMoment
from tidelog.core.types import BrokerId, ControllerEpoch, LeaderEpoch, PartitionState, TopicPartition
from tidelog.evidence.event_schema import to_row
from tidelog.evidence.folder import COMPLETE, Manifest
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.process_events import LogRecovered, RecordedEvent
from tidelog.evidence.tables import CLIENT_EVENTS, EVENTS, FAULTS, LEDGER, READS, RECORDS, REPLICAS

FINAL = "final"
Row = dict[str, Any]


def _value(value: str | None) -> Row:
    if value is None:
        return {}
    return {"value": value, "value_bytes": len(value), "value_crc32": crc32(value.encode())}


class Case:
    """The evidence of one topic with one partition. Times are ms; sends happen 10 ms after each other and
    take 5."""

    def __init__(self, topic: str, **configs: str) -> None:
        self.topic = topic
        self.configs = {"min.insync.replicas": "1", **configs}
        self.ledger: list[Row] = []
        self.reads: list[Row] = []
        self.records: list[Row] = []
        self.replicas: list[Row] = []
        self.events: list[Row] = []
        self.client_events: list[Row] = []
        self._place = {"topic": topic, "partition": 0}
        self._tp = TopicPartition(topic, 0)
        self._sequences: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        self._polls: dict[str, int] = {}

    def send(self, value: str, offset: int | None = None, outcome: str = "ok", **more: Any) -> Case:
        producer = f"{self.topic}.{more.pop('producer', 'p')}"
        sequence = self._sequences[producer] = self._sequences.get(producer, -1) + 1
        sent_ms = more.pop("sent_ms", 10 * len(self.ledger))
        row = {
            **self._place,
            **_value(value),
            "producer": producer,
            "sequence": sequence,
            "acks": -1,
            "idempotent": False,
            "sent_us": sent_ms * 1000,
            "settled_us": more.pop("settled_ms", sent_ms + 5) * 1000,
            "outcome": outcome,
            "offset": offset,
        }
        self.ledger.append(row | more)
        return self

    def log(
        self,
        broker: int,
        *values: str | None,
        hw: int | None = None,
        start: int = 0,
        epochs: Sequence[int | None] = (),
        leader: int = 0,
        isr: Sequence[int] = (0, 1),
    ) -> Case:
        """What a replica holds from `start` on; None is a control record."""
        end = start + len(values)
        for index, value in enumerate(values):
            self.records.append(
                {
                    **self._place,
                    **_value(value),
                    "broker": broker,
                    "offset": start + index,
                    "leader_epoch": epochs[index] if epochs else 0,
                    "control": value is None,
                }
            )
        self.replicas.append(
            {
                **self._place,
                "broker": broker,
                "base_offset": start,
                "log_start_offset": start,
                "log_end_offset": end,
                "high_watermark": end if hw is None else hw,
                "leader": leader,
                "leader_epoch": 0,
                "isr": list(isr),
            }
        )
        return self

    def logs(self, *values: str | None, **more: Any) -> Case:
        """The same log on both replicas."""
        return self.log(0, *values, **more).log(1, *values, **more)

    def read(
        self, consumer: str, *found: tuple[int, str], at_ms: int = 1000, follow: bool = True, **more: Any
    ) -> Case:
        """One poll. `follow`: the consumer waits for what comes next, as consumers do."""
        poll = self._polls[consumer] = self._polls.get(consumer, -1) + 1
        for offset, value in found:
            position = self._positions.get(consumer, offset if not follow else 0)
            self.reads.append(
                {
                    **self._place,
                    **_value(value),
                    "consumer": consumer,
                    "offset": offset,
                    "read_us": at_ms * 1000,
                    "poll": poll,
                    "position_before": position,
                    "position_after": offset + 1,
                }
                | more
            )
            self._positions[consumer] = offset + 1
        return self

    def final(self, *found: tuple[int, str]) -> Case:
        return self.read(FINAL, *found, at_ms=100_000, follow=False)

    def happened(self, at_ms: int, event: RecordedEvent, broker: int = 0) -> Case:
        """As a broker writes it down."""
        row = to_row(event, at_ms, BrokerId(broker), sequence=len(self.events))
        self.events.append({name: list(v) if isinstance(v, tuple) else v for name, v in row.items()})
        return self

    def elected(  # noqa: PLR0917
        self,
        at_ms: int,
        broker: int,
        epoch: int,
        end: int,
        reason: ElectionKind | StateWriteReason,
        isr: Sequence[int],
        watermark: int = 0,
    ) -> Case:
        self.written(at_ms, broker, epoch, isr, epoch, reason)
        members = tuple(map(BrokerId, isr))
        became = e.BecameLeader(BrokerId(broker), self._tp, LeaderEpoch(epoch), members, end, watermark)
        return self.happened(at_ms, became, broker)

    def written(  # noqa: PLR0917
        self,
        at_ms: int,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        version: int,
        reason: ElectionKind | StateWriteReason = StateWriteReason.ISR_ASKED,
    ) -> Case:
        """What the keeper took."""
        state = PartitionState(
            BrokerId(leader), LeaderEpoch(epoch), tuple(map(BrokerId, isr)), ControllerEpoch(1), version
        )
        return self.happened(at_ms, e.PartitionStateWritten(BrokerId(0), self._tp, state, reason))

    def isr_changed(self, at_ms: int, isr: Sequence[int], epoch: int = 0) -> Case:
        return self.happened(
            at_ms, e.IsrChanged(BrokerId(0), self._tp, LeaderEpoch(epoch), tuple(map(BrokerId, isr)))
        )

    def truncated(self, at_ms: int, broker: int, before: int, after: int, *rule: Any) -> Case:
        """`rule` is the rule that fired, with its facts."""
        return self.happened(at_ms, e.Truncated(BrokerId(broker), self._tp, before, after, *rule), broker)

    def recovered(self, at_ms: int, broker: int, end: int, cut_bytes: int, finding: str) -> Case:
        return self.happened(at_ms, LogRecovered(self._tp, end, cut_bytes, 0, finding), broker)

    def committed(self, at_ms: int, before: int, after: int, isr: Sequence[int], epoch: int = 0) -> Case:
        members = tuple(map(BrokerId, isr))
        return self.happened(
            at_ms,
            e.HighWatermarkAdvanced(
                BrokerId(0),
                self._tp,
                LeaderEpoch(epoch),
                before,
                after,
                members,
                WatermarkMoment.FOLLOWER_FETCHED,
            ),
        )

    def noticed(self, consumer: str, offset: int, at_ms: int = 900) -> Case:
        row = {**self._place, "client": consumer, "event": "out_of_range", "offset": offset}
        self.client_events.append(row | {"time_us": at_ms * 1000})
        return self


def write(path: Path, cases: Sequence[Case], faults: Sequence[Row] = (), **manifest: Any) -> Path:
    """The cases as one folder of evidence."""
    path.mkdir(parents=True, exist_ok=True)
    topics = [{"name": case.topic, "partitions": 1, "configs": case.configs} for case in cases]
    settings = {"state": COMPLETE, "load_started_us": 0, "topics": topics, **manifest}
    Manifest("sim", **settings).write(path)
    for table in (LEDGER, READS, RECORDS, REPLICAS, EVENTS, CLIENT_EVENTS, FAULTS):
        writer = PartWriter(path / table.name, table, seconds_max=float("inf"))
        rows = faults if table is FAULTS else [row for case in cases for row in getattr(case, table.name)]
        for row in rows:
            writer.write({name: value for name, value in row.items() if value is not None})
        writer.close()
    return path
