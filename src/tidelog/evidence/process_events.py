"""Events of a broker *process*, which the core does not know: start, recovery, keeper sessions.

They are recorded beside the core's own events (``tidelog.core.events``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.events import Event
from tidelog.core.types import Millis, Offset, TopicPartition


@dataclass(slots=True)
class ProcessStarted:
    """The first event of a process: its identity and its replication rules."""

    version: str
    generation: str
    pid: int
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True)
class LogRecovered:
    """Recovery of one log found something: its tail was truncated, offsets of a checkpoint are missing, or an
    index was rebuilt."""

    tp: TopicPartition
    log_end_offset: Offset
    truncated_bytes: int
    missing_offsets: int
    finding: str


@dataclass(slots=True)
class StorageRecovered:
    """All logs are open. After a clean shutdown nothing is scanned."""

    clean_shutdown: bool
    partitions: int
    findings: int
    duration_ms: Millis


@dataclass(slots=True)
class KeeperSessionStarted:
    session_id: int


@dataclass(slots=True)
class KeeperReconnected:
    """The broker reconnected in time: session and registration are still valid."""

    session_id: int


@dataclass(slots=True)
class KeeperSessionLost:
    """The keeper ended the session, and with it the broker's registration. A disconnected broker learns this
    when it reconnects; the others learn it as soon as the session times out."""

    session_id: int
    reason: str


@dataclass(slots=True)
class ControlledShutdownBegun:
    reason: str


@dataclass(slots=True)
class ControlledShutdownFinished:
    """``leaders`` counts the partitions whose leadership could not be moved."""

    leaders: int
    duration_ms: Millis


@dataclass(slots=True)
class ProcessStopped:
    """The last event of a process that ended by itself. A killed process leaves none."""

    reason: str


ProcessEvent = (
    ProcessStarted
    | LogRecovered
    | StorageRecovered
    | KeeperSessionStarted
    | KeeperReconnected
    | KeeperSessionLost
    | ControlledShutdownBegun
    | ControlledShutdownFinished
    | ProcessStopped
)

RecordedEvent = Event | ProcessEvent
