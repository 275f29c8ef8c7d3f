"""One row for every event of every stage: its columns, and how each kind of event fills them.

Rules of the file:

* A row is flat. All kinds share one set of columns, named as Kafka names things; what a kind has nothing to
  say about is absent, and absent means null.
* (``broker``, ``process_start_ms``, ``sequence``) identifies a row. Within one process rows are in the order
  of ``sequence``; between processes there is only ``time_ms``, as good as the machines' clocks.
* A column, once released, keeps its name, type and meaning: evidence outlives the version that wrote it.
* ``docs/reference/events.md`` is made from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from tidelog.core import events as e
from tidelog.core.types import BrokerId, Millis
from tidelog.evidence import process_events as p
from tidelog.evidence.process_events import RecordedEvent

Row = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Column:
    """``type`` is one of bool, int16, int32, int64, string, list<int32>,
    map<string,string>: as Arrow spells them."""

    name: str
    type: str
    doc: str


COLUMNS = (
    Column("time_ms", "int64", "when, in ms since 1970 by the broker's clock (virtual ms in the simulator)"),
    Column("broker", "int32", "the broker that tells, and to which this happened"),
    Column("process_start_ms", "int64", "when the broker's process started: tells its lives apart"),
    Column("sequence", "int64", "the place in that process's order, from 0; a gap is a loss of evidence"),
    Column("event", "string", "what happened: one of the kinds below"),
    Column("topic", "string", "the topic that the event is about"),
    Column("partition", "int32", "the partition that the event is about"),
    Column("leader_epoch", "int32", "the leader epoch in which it happened, or that it began"),
    Column("leader", "int32", "who leads from now on; -1 is nobody"),
    Column("isr", "list<int32>", "the in-sync replicas: now, proposed or refused, as the kind says"),
    Column("previous_isr", "list<int32>", "the in-sync replicas that a proposal would replace"),
    Column("log_end_offset", "int64", "the end of this broker's log, exclusive, after the event"),
    Column("previous_log_end_offset", "int64", "the end of this broker's log before the event"),
    Column("high_watermark", "int64", "records below are committed from now on"),
    Column("previous_high_watermark", "int64", "records below were committed before"),
    Column("partition_version", "int32", "the version of the partition's state node in the keeper"),
    Column("controller_epoch", "int32", "the epoch of the controller that wrote, was elected or resigned"),
    Column("broker_epoch", "int64", "the epoch of this registration: larger than all before it"),
    Column("configs", "map<string,string>", "the settings of a topic, by Kafka's names"),
    Column("request", "string", "the request that was refused"),
    Column("error_code", "int16", "the Kafka error code of a refusal"),
    Column("error", "string", "the same error by name"),
    Column("session_id", "int64", "the keeper session"),
    Column("version", "string", "the version of tidelog"),
    Column("generation", "string", "the replication rules: hw, kip101, epoch or majority"),
    Column("pid", "int32", "the process id"),
    Column("host", "string", "where the broker listens: host name or address"),
    Column("port", "int32", "where the broker listens: port"),
    Column("rack", "string", "the broker's rack or zone"),
    Column("truncated_bytes", "int64", "bytes that recovery cut off the end of a log"),
    Column("missing_offsets", "int64", "how many offsets a log lacks that its checkpoints know of"),
    Column("clean_shutdown", "bool", "whether the process before this one had ended in order"),
    Column("partitions", "int32", "how many partitions this broker holds replicas of"),
    Column("findings", "int32", "how many logs needed repair"),
    Column("leaders", "int32", "how many partitions this broker still leads"),
    Column("duration_ms", "int64", "how long it took"),
    Column("cause", "string", "why: what the system or an administrator said, in their words"),
    Column("rule", "string", "why: the rule that fired, by its name below"),
    Column("rule_epoch", "int32", "the leader epoch that the rule is about"),
    Column("rule_epoch_end", "int64", "where that epoch ends, exclusive, on the leader or here"),
    Column("rule_own_epoch", "int32", "the older epoch that was gone back to, where that epoch is unknown"),
    Column("rule_broker", "int32", "the broker that the rule is about: absent, or the controller now"),
    Column("rule_brokers", "list<int32>", "the brokers that the partition is assigned to"),
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
    # attrgetter of one attribute returns it bare, so a tuple is asked for in any case.
    getter = attrgetter(*attributes, "__class__")
    return event, EventKind(_kind_name(event), doc, sources, getter)


_PARTITION = {"topic": "tp.topic", "partition": "tp.partition"}
_ERROR = {"error_code": "error.value", "error": "error.name"}

KINDS: dict[type, EventKind] = dict(
    (
        _kind(
            e.BecameLeader,
            "It leads the partition in this epoch. Its log ends where the epoch starts.",
            **_PARTITION,
            leader_epoch="epoch",
            leader="broker",
            isr="isr",
            log_end_offset="log_end_offset",
        ),
        _kind(
            e.BecameFollower,
            "It follows the leader in this epoch.",
            **_PARTITION,
            leader_epoch="epoch",
            leader="leader",
        ),
        _kind(
            e.Truncated,
            "Its log lost the records from `log_end_offset` up to `previous_log_end_offset`. Where the "
            "former is larger, it lost all it had and starts anew there.",
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
            "As leader it raised the high watermark. One row stands for all advances of a moment; `isr` is "
            "who had to have the records.",
            **_PARTITION,
            leader_epoch="epoch",
            previous_high_watermark="before",
            high_watermark="high_watermark",
            isr="isr",
        ),
        _kind(
            e.IsrChangeProposed,
            "As leader it asked for `isr` instead of `previous_isr`.",
            **_PARTITION,
            leader_epoch="epoch",
            previous_isr="before",
            isr="isr",
            rule="reason",
        ),
        _kind(
            e.IsrChangeRefused,
            "Its proposal `isr` was refused.",
            **_PARTITION,
            leader_epoch="epoch",
            isr="isr",
            **_ERROR,
        ),
        _kind(
            e.IsrChanged,
            "As leader it learnt that its proposal was written.",
            **_PARTITION,
            leader_epoch="epoch",
            isr="isr",
        ),
        _kind(
            e.PartitionStateWritten,
            "It wrote this state to the keeper, as controller or (before KIP-497) as leader.",
            **_PARTITION,
            leader_epoch="state.leader_epoch",
            leader="state.leader",
            isr="state.isr",
            controller_epoch="state.controller_epoch",
            partition_version="state.version",
            rule="reason",
            rule_broker="absent",
        ),
        _kind(
            e.ElectionFailed,
            "As controller it found nobody who may lead: the partition is offline.",
            **_PARTITION,
            rule="reason",
        ),
        _kind(e.ControllerElected, "It is the controller now.", controller_epoch="controller_epoch"),
        _kind(
            e.ControllerResigned,
            "It learnt that it is not the controller any more.",
            controller_epoch="controller_epoch",
            rule="reason",
            rule_broker="successor",
        ),
        _kind(e.BrokerRegistered, "The keeper has its registration.", broker_epoch="broker_epoch"),
        _kind(
            e.ControlRequestRefused,
            "It refused a request of a controller, or for a former life of itself.",
            request="request",
            **_ERROR,
        ),
        _kind(
            e.FollowerStalled,
            "Following stopped for a while: its leader refused it, or its own disk did.",
            **_PARTITION,
            **_ERROR,
        ),
        _kind(
            e.StorageFailed,
            "Its log of the partition could not be written or read; whoever asked was told so.",
            **_PARTITION,
            cause="reason",
        ),
        _kind(
            e.ReplicaWentOffline,
            "It cannot use its log of the partition at all: others lead it, and it is asked to try again.",
            **_PARTITION,
            cause="reason",
        ),
        _kind(e.ReplicaCameOnline, "It can use that log again.", **_PARTITION),
        _kind(
            e.TopicConfigured,
            "It learnt the settings of a topic that differ from its defaults.",
            topic="topic",
            configs="values",
        ),
        _kind(e.TopicDeletionStarted, "As controller it began to delete a topic.", topic="topic"),
        _kind(
            e.TopicDeleted,
            "As controller it saw the last replica of a topic go: the name is free again.",
            topic="topic",
        ),
        _kind(e.ReplicaDeleted, "It deleted its log of the partition.", **_PARTITION),
        _kind(
            e.StrayReplicaFound,
            "It has a log of a partition that does not exist or lives elsewhere, and left it alone.",
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
            "Opening this log found damage and repaired it, or offsets that are missing; it ends at "
            "`log_end_offset` now.",
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
        _kind(p.KeeperSessionStarted, "The keeper gave it a session.", session_id="session_id"),
        _kind(
            p.KeeperReconnected,
            "Its connection to the keeper had broken and is back, in the same session.",
            session_id="session_id",
        ),
        _kind(
            p.KeeperSessionLost,
            "It learnt that the keeper had ended its session, and with it its registration.",
            session_id="session_id",
            cause="reason",
        ),
        _kind(
            p.ControlledShutdownBegun,
            "It was told to stop and asks the controller to move its leaderships away.",
            cause="reason",
        ),
        _kind(
            p.ControlledShutdownFinished,
            "It has handed over what could be handed over.",
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
    e.Truncated: (e.TruncationRule,),
    e.IsrChangeProposed: (e.IsrChange,),
    e.PartitionStateWritten: (e.StateWriteReason, e.ElectionKind),
    e.ElectionFailed: (e.ElectionFailure,),
    e.ControllerResigned: (e.ResignReason,),
    e.StrayReplicaFound: (e.StrayReason,),
}
"""What `rule` may be, by the kind of event."""


def to_row(
    event: RecordedEvent,
    time_ms: Millis,
    broker: BrokerId,
    *,
    process_start_ms: Millis = 0,
    sequence: int = 0,
) -> Row:
    """The row of an event: only what it has something to say about."""
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
