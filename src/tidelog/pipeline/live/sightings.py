"""What was seen, as columns; and what is found out from it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION

POLL_SKIP: Final = "poll skip"
NONMONOTONIC_POLL: Final = "non-monotonic poll"
REWRITTEN: Final = "rewritten"
INCONSISTENT_OFFSET: Final = "inconsistent offset"
DUPLICATED: Final = "duplicated"
GAP: Final = "gap"

FINDING_SCHEMA: Final = (
    "anomaly string, severity string, topic string, partition int, offset bigint, last_offset bigint, "
    "count bigint, value string, consumer string, time_us bigint, detail string"
)
SEVERITIES: Final = {
    POLL_SKIP: VIOLATION,
    NONMONOTONIC_POLL: VIOLATION,
    REWRITTEN: VIOLATION,
    INCONSISTENT_OFFSET: VIOLATION,
    # Whether a producer may repeat itself, and whether offsets may be empty, only others can tell.
    DUPLICATED: NOTICE,
    GAP: NOTICE,
}


@dataclass(slots=True, frozen=True)
class Sightings:
    """Columns of the same length, one row for each time that somebody saw what stands at an offset."""

    offset: Any
    mark: Any
    """A hash of the value, as `marked` makes it."""
    has_value: Any
    is_read: Any
    """False: it was not read; a producer was told so."""
    position: Any
    """The offset that the reader had waited for; -1: not known."""
    time_us: Any
    who: Any
    value: Any
    """What to call the value; None: nothing."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Any) -> Sightings:
        return Sightings(*(getattr(self, field.name)[rows] for field in fields(self)))


def marked(hashes: Any) -> Any:
    """Hashes as they are remembered: never zero, which is *nothing*, and without the lowest bit, which says
    whether it was read."""
    return (hashes.astype(np.int64) | 2) & ~np.int64(1)


@dataclass(slots=True)
class Finding:
    anomaly: str
    offset: int
    last_offset: int
    count: int
    value: str | None
    who: str | None
    time_us: int
    detail: str

    def row(self, topic: str, partition: int) -> dict[str, Any]:
        return {
            "anomaly": self.anomaly,
            "severity": SEVERITIES[self.anomaly],
            "topic": topic,
            "partition": partition,
            "offset": self.offset,
            "last_offset": self.last_offset,
            "count": self.count,
            "value": self.value,
            "consumer": self.who,
            "time_us": self.time_us,
            "detail": self.detail,
        }
