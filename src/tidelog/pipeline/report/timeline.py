"""What a timeline is made of: plain data of a bounded size, which a report can draw without Spark.

Times are ms after the load began.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidelog.narrate.phrasebook import Phrase

BUCKETS_MAX: Final = 300
COARSE_MAX: Final = 150
"""Buckets in which things are counted: more would show the beat of the clients' batches."""
PARTITIONS_MAX: Final = 12
OFFSETS_MAX: Final = 4
"""Partitions whose offsets are followed."""
FAULTS_MAX: Final = 300
CONSUMERS_MAX: Final = 5
WINDOWS_MAX: Final = 400
TRUNCATIONS_MAX: Final = 200

Place = tuple[str, int]
"""A topic's partition."""


@dataclass(slots=True, frozen=True)
class Load:
    """Sends with these `acks` that began in a bucket, and what became of them."""

    at_ms: int
    acks: int
    sent: int
    failed: int
    unknown: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True, frozen=True)
class Settled:
    """Acknowledgements that came in a bucket."""

    at_ms: int
    acks: int
    ok: int


@dataclass(slots=True, frozen=True)
class Reads:
    at_ms: int
    consumer: str
    records: int


@dataclass(slots=True, frozen=True)
class Found:
    """Anomalies of a kind that belong to a bucket."""

    at_ms: int
    anomaly: str
    count: int


@dataclass(slots=True, frozen=True)
class FaultSpan:
    number: int
    kind: str
    targets: tuple[str, ...]
    from_ms: int | None
    """None: it was never done."""
    to_ms: int | None
    error: str | None


@dataclass(slots=True, frozen=True)
class StateSpan:
    """Who led a partition, and who was in sync, from one change to the next."""

    from_ms: int
    to_ms: int
    leader: int
    """-1: none."""
    epoch: int
    isr: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Window:
    """A time in which a partition could not be written."""

    from_ms: int
    to_ms: int
    detail: Phrase | str
    """Why: a text, if nothing is known."""


@dataclass(slots=True, frozen=True)
class OffsetPoint:
    """What a broker said about its replica: its end, or how far it had committed as leader."""

    at_ms: int
    broker: int
    log_end_offset: int | None
    high_watermark: int | None


@dataclass(slots=True, frozen=True)
class Truncation:
    at_ms: int
    broker: int
    before: int
    after: int
    cause: Phrase | str
    """Why: a text, if the evidence has nothing else."""


@dataclass(slots=True, frozen=True)
class ReplicaEnd:
    """What a replica was at the end."""

    broker: int
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    in_sync: bool


@dataclass(slots=True)
class PartitionStory:
    topic: str
    partition: int
    states: list[StateSpan] = field(default_factory=list)
    changes: int = 0
    """How often its state was written."""
    violations: int = 0
    unavailable: list[Window] = field(default_factory=list)
    offsets: list[OffsetPoint] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)
    replicas: list[ReplicaEnd] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass(slots=True)
class Timeline:
    span_ms: int = 0
    load_ms: int = 0
    """When the load ended."""
    bucket_ms: int = 1
    coarse_ms: int = 1
    """The buckets of `load`, `settled`, `reads` and `found`."""
    latency_ms: dict[str, float] = field(default_factory=dict)
    """p50, p99 and max of all that was acknowledged."""
    load: list[Load] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    reads: list[Reads] = field(default_factory=list)
    consumers_left_out: int = 0
    found: list[Found] = field(default_factory=list)
    faults: list[FaultSpan] = field(default_factory=list)
    faults_left_out: int = 0
    partitions: list[PartitionStory] = field(default_factory=list)
    partitions_left_out: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
