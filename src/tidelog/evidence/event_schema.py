"""One row for every event of every stage: its columns, and how each kind of event fills them.

Rules of the file:

* A row is flat. All kinds share one set of columns, with Kafka's names; a column that a kind does not use is
  absent, which means null.
* (``broker``, ``process_start_ms``, ``sequence``) identifies a row. Within one process rows are in the order
  of ``sequence``; between processes only ``time_ms`` gives an order, as exact as the machines' clocks.
* A column, once released, keeps its name, type and meaning: evidence outlives the version that wrote it.
* ``docs/reference/events.md`` is generated from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from tidelog.core import events as e
from tidelog.core.reasons import (
    ElectionFailure,
    ElectionKind,
    IsrChange,
    LeadershipStart,
    ResignReason,
    StateWriteReason,
    StrayReason,
    TruncationRule,
    WatermarkMoment,
)
from tidelog.core.types import BrokerId, Millis
from tidelog.evidence import process_events as p
from tidelog.evidence.process_events import RecordedEvent

Row = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Column:
    """``type`` is one of bool, int16, int32, int64, string, list<int32>, list<string>,
    map<string,string>: as Arrow spells them."""

    name: str
    type: str
    doc: str


COLUMNS = (
    Column("time_ms", "int64", "time in ms since 1970 by the broker's clock (virtual ms in the simulator)"),
    Column("broker", "int32", "the broker that recorded the event, and that it happened to"),
    Column("process_start_ms", "int64", "when the broker's process started: distinguishes its runs"),
    Column("sequence", "int64", "number of the event in its process, from 0; a gap is a loss of evidence"),
    Column("event", "string", "what happened: one of the kinds below"),
    Column("topic", "string", "the topic that the event is about"),
    Column("partition", "int32", "the partition that the event is about"),
    Column("leader_epoch", "int32", "the leader epoch in which it happened, or that it began"),
    Column("leader", "int32", "the leader from now on; -1: none"),
    Column("isr", "list<int32>", "the in-sync replicas: current, proposed or refused, depending on the kind"),
    Column("previous_isr", "list<int32>", "the in-sync replicas that a proposal would replace"),
    Column("log_end_offset", "int64", "the end of this broker's log, exclusive, after the event"),
    Column("previous_log_end_offset", "int64", "the end of this broker's log before the event"),
    Column("leader_log_end_offset", "int64", "the end of the leader's log, exclusive"),
    Column("high_watermark", "int64", "records below this offset are committed from now on"),
    Column("previous_high_watermark", "int64", "records below this offset were committed before"),
    Column("partition_version", "int32", "the version of the partition's state node in the keeper"),
    Column("controller_epoch", "int32", "the epoch of the controller that wrote, was elected or resigned"),
    Column("broker_epoch", "int64", "the epoch of this registration: larger than all before it"),
    Column("configs", "map<string,string>", "the settings of a topic, by Kafka's names"),
    Column("request", "string", "the request that was refused"),
    Column("error_code", "int16", "the Kafka error code of a refusal"),
    Column("error", "string", "the same error by name"),
    Column("session_id", "int64", "the keeper session"),
    Column("version", "string", "the version of tidelog"),
    Column("generation", "string", "the replication rules: hw, kip101, epoch, elr or majority"),
    Column("pid", "int32", "the process id"),
    Column("host", "string", "where the broker listens: host name or address"),
    Column("port", "int32", "where the broker listens: port"),
    Column("rack", "string", "the broker's rack or zone"),
    Column("truncated_bytes", "int64", "bytes that recovery truncated from the end of a log"),
    Column("missing_offsets", "int64", "offsets in the checkpoints that the log lacks"),
    Column("clean_shutdown", "bool", "whether the previous process had shut down cleanly"),
    Column("partitions", "int32", "number of partitions that this broker has replicas of"),
    Column("findings", "int32", "number of logs that needed repair"),
    Column("leaders", "int32", "number of partitions that this broker still leads"),
    Column("duration_ms", "int64", "duration in ms"),
    Column("cause", "string", "cause: the message of the operating system or of an administrator"),
    Column("rule", "string", "the rule that applied, by its name below"),
    Column("rule_epoch", "int32", "the leader epoch that the rule is about"),
    Column("rule_epoch_end", "int64", "where that epoch ends, exclusive, on the leader or here"),
    Column("rule_own_epoch", "int32", "the older epoch that was used instead, if that epoch is unknown"),
    Column(
        "rule_broker", "int32", "the broker that the rule is about: the absent one, or the new controller"
    ),
    Column("rule_brokers", "list<int32>", "the brokers that the partition is assigned to"),
    Column("asked_epoch", "int32", "the leader epoch whose end the follower asked for"),
    Column("found_epoch", "int32", "the epoch that the leader found; -1: none, or not named in the answer"),
    Column("epoch_end_offset", "int64", "where that epoch ends on the leader, exclusive; -1: unknown there"),
    Column("high_watermarks", "map<string,string>", "the new high watermarks on disk, by partition"),
    Column("partition_names", "list<string>", "the partitions that changed together"),
    Column("replica", "int32", "the broker whose replicas changed"),
    Column("phase", "string", "the state in the controller's machine from now on"),
    Column("previous_phase", "string", "the state in the controller's machine before"),
    Column("elr", "list<int32>", "the eligible leader replicas, under the rules that track them"),
    Column("last_known_elr", "list<int32>", "the last known leader, while no replica is eligible"),
    Column("adding", "list<int32>", "the replicas that a reassignment adds"),
    Column("removing", "list<int32>", "the replicas that a reassignment removes"),
    Column("recovering", "bool", "whether the leader was elected without being eligible, and recovers"),
)


@dataclass(slots=True, frozen=True)
class EventKind:
    """How one class of events becomes rows. ``sources`` maps a column to the attribute that fills it."""

    name: str
    doc: str
    sources: dict[str, str]
    read: Callable[[Any], tuple[Any, ...]]


def _kind_name(event: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def _kind(event: type, doc: str, **sources: str) -> tuple[type, EventKind]:
    attributes = tuple(sources.values())
    # With one attribute attrgetter would not return a tuple, so a second one is added.
    getter = attrgetter(*attributes, "__class__")
    return event, EventKind(_kind_name(event), doc, sources, getter)


_PARTITION = {"topic": "tp.topic", "partition": "tp.partition"}
_ERROR = {"error_code": "error.value", "error": "error.name"}

KINDS: dict[type, EventKind] = dict(
    (
        _kind(
            e.BecameLeader,
            "The broker became leader of the partition in this epoch. Its log ends where the epoch starts.",
            **_PARTITION,
            leader_epoch="epoch",
            leader="broker",
            isr="isr",
            log_end_offset="log_end_offset",
            high_watermark="high_watermark",
            rule="start",
        ),
        _kind(
            e.BecameFollower,
            "The broker became a follower in this epoch.",
            **_PARTITION,
            leader_epoch="epoch",
            leader="leader",
        ),
        _kind(
            e.Truncated,
            "The broker truncated its log from `previous_log_end_offset` to `log_end_offset`. If the latter "
            "is larger, it deleted the whole log and starts again at that offset.",
            **_PARTITION,
            previous_log_end_offset="before",
            log_end_offset="after",
            rule="rule",
            rule_epoch="epoch",
            rule_epoch_end="epoch_end",
            rule_own_epoch="own_epoch",
        ),
        _kind(
            e.HighWatermarkAdvanced,
            "The leader raised the high watermark. One row covers all advances of a flush interval; `isr` "
            "are the replicas that had to have the records, `rule` is the moment of the last advance.",
            **_PARTITION,
            leader_epoch="epoch",
            previous_high_watermark="before",
            high_watermark="high_watermark",
            isr="isr",
            rule="moment",
        ),
        _kind(
            e.HighWatermarksCheckpointed,
            "The broker wrote its high watermarks to disk; a row only if one of them had changed.",
            high_watermarks="by_name",
        ),
        _kind(
            e.EpochEndAsked,
            "The follower asked its leader where `asked_epoch` ends (OffsetForLeaderEpoch).",
            **_PARTITION,
            leader="leader",
            asked_epoch="epoch",
        ),
        _kind(
            e.EpochEndAnswered,
            "The follower received the answer.",
            **_PARTITION,
            leader="leader",
            asked_epoch="asked_epoch",
            found_epoch="epoch",
            epoch_end_offset="end_offset",
        ),
        _kind(
            e.IsrChangeProposed,
            "The leader proposed to change the ISR from `previous_isr` to `isr`.",
            **_PARTITION,
            leader_epoch="epoch",
            previous_isr="before",
            isr="isr",
            rule="reason",
        ),
        _kind(
            e.IsrChangeRefused,
            "The leader's proposal `isr` was refused.",
            **_PARTITION,
            leader_epoch="epoch",
            isr="isr",
            **_ERROR,
        ),
        _kind(
            e.IsrChanged,
            "The leader received the confirmation of its ISR change.",
            **_PARTITION,
            leader_epoch="epoch",
            isr="isr",
        ),
        _kind(
            e.PartitionStateWritten,
            "The controller, or before KIP-497 the leader, wrote this state to the keeper.",
            **_PARTITION,
            leader_epoch="state.leader_epoch",
            leader="state.leader",
            isr="state.isr",
            controller_epoch="state.controller_epoch",
            partition_version="state.version",
            elr="state.elr",
            last_known_elr="state.last_known_elr",
            recovering="state.recovering",
            rule="reason",
            rule_broker="absent",
        ),
        _kind(
            e.PartitionPhaseChanged,
            "The controller's partition machine moved these partitions from `previous_phase` to `phase`.",
            partition_names="names",
            previous_phase="before",
            phase="after",
        ),
        _kind(
            e.ReplicaPhaseChanged,
            "The controller's replica machine moved the replicas of broker `replica` to `phase`.",
            replica="replica",
            partition_names="names",
            previous_phase="before",
            phase="after",
        ),
        _kind(
            e.ElectionFailed,
            "The controller found no eligible leader: the partition is offline.",
            **_PARTITION,
            rule="reason",
        ),
        _kind(e.ControllerElected, "The broker became controller.", controller_epoch="controller_epoch"),
        _kind(
            e.ControllerResigned,
            "The broker learnt that it is no longer controller.",
            controller_epoch="controller_epoch",
            rule="reason",
            rule_broker="successor",
        ),
        _kind(e.BrokerRegistered, "The broker registered at the keeper.", broker_epoch="broker_epoch"),
        _kind(
            e.ControlRequestRefused,
            "The broker refused a request of an old controller, or one meant for its previous registration.",
            request="request",
            **_ERROR,
        ),
        _kind(
            e.FollowerStalled,
            "The follower paused: its leader refused its fetch, or its own disk failed.",
            **_PARTITION,
            **_ERROR,
        ),
        _kind(
            e.BrokerExited,
            "The broker stopped rather than truncate its log to the leader's, which is shorter: the topic "
            "forbids unclean elections (until Kafka 2.0).",
            **_PARTITION,
            leader="leader",
            log_end_offset="log_end_offset",
            leader_log_end_offset="leader_end_offset",
        ),
        _kind(
            e.StorageFailed,
            "The broker could not write or read its log of the partition; the request failed.",
            **_PARTITION,
            cause="reason",
        ),
        _kind(
            e.ReplicaWentOffline,
            "The broker cannot use its log of the partition: the replica is offline.",
            **_PARTITION,
            cause="reason",
        ),
        _kind(e.ReplicaCameOnline, "The broker can use the log again.", **_PARTITION),
        _kind(
            e.TopicConfigured,
            "The broker received the settings of a topic that differ from its defaults.",
            topic="topic",
            configs="values",
        ),
        _kind(e.TopicDeletionStarted, "The controller began to delete a topic.", topic="topic"),
        _kind(
            e.TopicDeleted,
            "The controller completed the deletion of a topic: the name is free again.",
            topic="topic",
        ),
        _kind(
            e.ReassignmentStarted,
            "The controller began to move a partition to other brokers.",
            **_PARTITION,
            rule_brokers="replicas",
            adding="adding",
            removing="removing",
        ),
        _kind(
            e.ReassignmentCompleted,
            "All replicas of the target are in sync; the others are removed now.",
            **_PARTITION,
            rule_brokers="replicas",
            removing="removing",
            isr="isr",
        ),
        _kind(
            e.ReassignmentCancelled,
            "A move was cancelled: the partition keeps its replicas.",
            **_PARTITION,
            rule_brokers="replicas",
        ),
        _kind(e.ReplicaDeleted, "The broker deleted its log of the partition.", **_PARTITION),
        _kind(
            e.StrayReplicaFound,
            "The broker found a log of a partition that does not exist or is not its own, and kept it.",
            **_PARTITION,
            rule="reason",
            rule_brokers="replicas",
        ),
        _kind(
            p.ProcessStarted,
            "A process of this broker started. The first row of every process.",
            version="version",
            generation="generation",
            pid="pid",
            host="host",
            port="port",
            rack="rack",
        ),
        _kind(
            p.LogRecovered,
            "Recovery repaired this log, or found that offsets are missing; the log now ends at "
            "`log_end_offset`.",
            **_PARTITION,
            log_end_offset="log_end_offset",
            truncated_bytes="truncated_bytes",
            missing_offsets="missing_offsets",
            cause="finding",
        ),
        _kind(
            p.StorageRecovered,
            "All logs of this broker are open.",
            clean_shutdown="clean_shutdown",
            partitions="partitions",
            findings="findings",
            duration_ms="duration_ms",
        ),
        _kind(p.KeeperSessionStarted, "The keeper opened a session for the broker.", session_id="session_id"),
        _kind(
            p.KeeperReconnected,
            "The broker reconnected to the keeper in the same session.",
            session_id="session_id",
        ),
        _kind(
            p.KeeperSessionLost,
            "The broker learnt that the keeper had ended its session, and with it its registration.",
            session_id="session_id",
            cause="reason",
        ),
        _kind(
            p.ControlledShutdownBegun,
            "The broker is stopping and asks the controller to move its leaderships away.",
            cause="reason",
        ),
        _kind(
            p.ControlledShutdownFinished,
            "The controlled shutdown is finished; `leaders` counts the leaderships that could not be moved.",
            leaders="leaders",
            duration_ms="duration_ms",
        ),
        _kind(
            p.ProcessStopped,
            "The process ended on its own. The last row, unless the process was killed.",
            cause="reason",
        ),
    )
)

REASONS: dict[type, tuple[type[StrEnum], ...]] = {
    e.BecameLeader: (LeadershipStart,),
    e.Truncated: (TruncationRule,),
    e.HighWatermarkAdvanced: (WatermarkMoment,),
    e.IsrChangeProposed: (IsrChange,),
    e.PartitionStateWritten: (StateWriteReason, ElectionKind),
    e.ElectionFailed: (ElectionFailure,),
    e.ControllerResigned: (ResignReason,),
    e.StrayReplicaFound: (StrayReason,),
}
"""The possible values of `rule`, by the kind of event."""


def to_row(
    event: RecordedEvent,
    time_ms: Millis,
    broker: BrokerId,
    *,
    process_start_ms: Millis = 0,
    sequence: int = 0,
) -> Row:
    """The row of an event, without columns that are null."""
    kind = KINDS[type(event)]
    row: Row = {
        "time_ms": time_ms,
        "broker": broker,
        "process_start_ms": process_start_ms,
        "sequence": sequence,
        "event": kind.name,
    }
    for column, value in zip(kind.sources, kind.read(event), strict=False):
        if value is not None:
            row[column] = value
    return row
