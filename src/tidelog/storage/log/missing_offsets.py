"""Offsets that a log should have and does not, found by comparing segment files with checkpoints.

A missing file leaves no torn batch behind, so a log whose last or first segments were removed looks like a
shorter, complete log. But the checkpoints record how far it went:

* the *recovery point* is lowered before the log is truncated below it, so a log that ends below it has lost
  records that were on disk;
* the *high watermark*: a log that ends below it lost committed records: in a power cut before they were
  synced, or with a file. (Or the log was truncated after an unclean election, and the broker was killed
  before it checkpointed the watermark again.)
* the *log start*: files are removed from the front only after it was checkpointed (``Upkeep``), so a log that
  starts above it has lost a file, unless the removed file still exists under another name;
* the *next segment* begins where the one before it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidelog.core.types import Offset
from tidelog.storage.checkpoints import Checkpointed


class Witness(Enum):
    """The checkpoint or file that proves that offsets are missing; the value completes the message."""

    RECOVERY_POINT = "the log ends at {first}, the recovery point is {end}"
    HIGH_WATERMARK = "the log ends at {first}, the high watermark was {end}"
    LOG_START = "the log starts at {end}, and started at {first}"
    NEXT_SEGMENT = "a segment ends at {first}, the next begins at {end}"


@dataclass(frozen=True, slots=True)
class MissingOffsets:
    first: Offset
    end: Offset
    witness: Witness

    def __str__(self) -> str:
        why = self.witness.value.format(first=self.first, end=self.end)
        return f"offsets {self.first} to {self.end - 1} are missing: {why}"


def missing_at_the_end(checkpointed: Checkpointed, end_offset: Offset) -> list[MissingOffsets]:
    point, watermark = checkpointed.recovery_point, checkpointed.high_watermark
    if end_offset >= max(point, watermark):
        return []
    if point >= watermark:
        return [MissingOffsets(end_offset, point, Witness.RECOVERY_POINT)]
    return [MissingOffsets(end_offset, watermark, Witness.HIGH_WATERMARK)]


def missing_at_the_front(checkpointed: Checkpointed, first_base: Offset) -> list[MissingOffsets]:
    start = checkpointed.start_offset
    return [MissingOffsets(start, first_base, Witness.LOG_START)] if start < first_base else []
