"""Events that brokers recorded while a scenario was played, as events of the core.

Brokers record evidence. A row that narration has words for becomes the event it was made of. A broker writes
each row to the file at once, so the last rows of a killed process are there too.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tidelog.core import events as e
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.evidence.event_schema import KINDS, REASONS, Row
from tidelog.evidence.journals.event_files import event_files
from tidelog.wire.errors import ErrorCode

NARRATED = (
    e.BecameLeader,
    e.BecameFollower,
    e.Truncated,
    e.HighWatermarkAdvanced,
    e.HighWatermarksCheckpointed,
    e.EpochEndAsked,
    e.EpochEndAnswered,
    e.IsrChangeProposed,
    e.IsrChangeRefused,
    e.IsrChanged,
    e.PartitionStateWritten,
    e.PartitionPhaseChanged,
    e.ReplicaPhaseChanged,
    e.ElectionFailed,
    e.ControllerElected,
    e.ControllerResigned,
    e.BrokerRegistered,
    e.ControlRequestRefused,
    e.FollowerStalled,
    e.BrokerExited,
    e.ReassignmentStarted,
    e.ReassignmentCompleted,
    e.ReassignmentCancelled,
    e.TopicDeletionStarted,
    e.TopicDeleted,
    e.ReplicaDeleted,
    e.StrayReplicaFound,
)
_CLASS_OF = {KINDS[kind].name: kind for kind in NARRATED}


class BrokerEventReader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        """How many bytes of each file were read."""

    def new(self) -> list[tuple[int, object]]:
        """Events since the last call, with the time of day in ms, in the order of time."""
        if not self._folder.is_dir():
            return []
        rows = [row for file in event_files(self._folder) for row in self._rows(file.path)]
        rows.sort(key=lambda row: row["time_ms"])  # stable: each process keeps its own order
        return [(row["time_ms"], event) for row in rows if (event := event_of(row)) is not None]

    def _rows(self, path: Path) -> list[Row]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._read[path] = self._read.get(path, 0) + whole
        return [json.loads(line) for line in data[:whole].splitlines()]


def event_of(row: Row) -> object | None:
    """The event that a row was made of; None if narration has no words for it."""
    kind = _CLASS_OF.get(row["event"])
    if kind is None:
        return None
    columns = {attribute: column for column, attribute in KINDS[kind].sources.items()}
    return kind(**{field.name: _value(kind, field.name, row, columns) for field in dataclasses.fields(kind)})


def _value(kind: type, name: str, row: Row, columns: dict[str, str]) -> Any:
    """The attribute of an event out of the columns that it fills."""
    if columns.get(name) == "rule":
        return next(reason for reasons in REASONS[kind] for reason in reasons if reason == row["rule"])
    if name in ("broker", "controller", "writer"):
        return BrokerId(row["broker"])
    if name == "tp":
        return TopicPartition(row["topic"], row["partition"])
    if name == "tps":
        return tuple(map(_partition, row["partition_names"]))
    if name == "offsets":
        return {_partition(tp): int(offset) for tp, offset in row["high_watermarks"].items()}
    if name in ("before", "after") and "phase" in row:
        phases = ReplicaPhase if kind is e.ReplicaPhaseChanged else PartitionPhase
        return phases(row[columns[name]])
    if name == "error":
        return ErrorCode(row["error_code"])
    if name == "state":
        isr = tuple(map(BrokerId, row["isr"]))
        leader = BrokerId(row["leader"])
        return PartitionState(
            leader,
            row["leader_epoch"],
            isr,
            row["controller_epoch"],
            row["partition_version"],
            tuple(map(BrokerId, row["elr"])),
            tuple(map(BrokerId, row["last_known_elr"])),
            row["recovering"],
        )
    value = row.get(columns[name])
    return tuple(value) if isinstance(value, list) else value


def _partition(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))
