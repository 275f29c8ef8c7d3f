"""What ``tidelog produce`` wrote, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.narrate.numbers import counted

if TYPE_CHECKING:
    from tidelog.kafka_client.writing import Written


class WrittenRanges:
    """What was written where: for each partition the offsets, in ranges."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._ranges: dict[int, list[list[int]]] = {}
        self._records = 0

    def add(self, written: Written) -> None:
        self._records += written.records
        ranges = self._ranges.setdefault(written.partition, [])
        if written.offset is None:
            return
        if ranges and ranges[-1][1] == written.offset:
            ranges[-1][1] += written.records
        else:
            ranges.append([written.offset, written.offset + written.records])

    def summary(self) -> str:
        lines = [f"wrote {counted(self._records, 'record')} to {self._topic}"]
        for partition, ranges in sorted(self._ranges.items()):
            shown = ", ".join(
                str(start) if end == start + 1 else f"{start} to {end - 1}" for start, end in ranges[-3:]
            )
            dots = "…, " if len(ranges) > 3 else ""
            lines.append(f"  partition {partition}: offset {dots}{shown or 'unknown'}")
        return "\n".join(lines) + "\n"
