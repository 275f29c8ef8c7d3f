"""What a broker *process* goes through, in the past tense: the events that the core knows nothing of.

The core does not know that it was started, that its disk was recovered or that its keeper cannot be reached.
The process does, and says so with these, next to the core's own events (``tidelog.core.events``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.events import Event
from tidelog.core.types import Millis, Offset, TopicPartition


@dataclass(slots=True)
class ProcessStarted:
    """The first event of a process: who it is and which rules it follows."""

    version: str
    generation: str
    pid: int
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True)
class LogRecovered:
    """Opening the log of one partition found something: its tail was cut, offsets that a checkpoint knows of
    are missing, or an index was built anew."""

    tp: TopicPartition
    log_end_offset: Offset
    truncated_bytes: int
    missing_offsets: int
    finding: str


@dataclass(slots=True)
class StorageRecovered:
    """All logs are open. After a clean shutdown there is nothing to scan and nothing to find."""

    clean_shutdown: bool
    partitions: int
    findings: int
    duration_ms: Millis


@dataclass(slots=True)
class KeeperSessionStarted:
    session_id: int


@dataclass(slots=True)
class KeeperReconnected:
    """The connection had broken and is back in time: the session lives, and with it the registration."""

    session_id: int


@dataclass(slots=True)
class KeeperSessionLost:
    """The keeper ended the session, and with it all that the broker had registered under it. A broker that
    was cut off learns this when it can connect again; the others knew as soon as the session timed out."""

    session_id: int
    reason: str


@dataclass(slots=True)
class ControlledShutdownBegun:
    reason: str


@dataclass(slots=True)
class ControlledShutdownFinished:
    """``leaders`` counts the partitions that could not be moved and are led from here to the last moment."""

    leaders: int
    duration_ms: Millis


@dataclass(slots=True)
class ProcessStopped:
    """The last event of a process that ended on its own. A killed one leaves none."""

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
