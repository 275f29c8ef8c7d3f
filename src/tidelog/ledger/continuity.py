"""Whether the records of each stream arrive once, in order and unharmed, by the header that they carry.

A stream is what one wrapped producer sends to one topic, numbered from 0. A consumer that reads all
partitions of the topic sees every number, and a number that is missing for good is a record that was lost: in
the producer's process before Kafka had it, or in Kafka. One that reads some of the partitions sees some of
the numbers: for it `missing` says nothing, the rest still does.

A number can also be missing because retention deleted the record, or because its send failed: the ledger of
the producer says which.

Memory: the numbers seen, as ranges, the last one for each partition, and the first records with a flaw.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from tidelog.ledger.identity import Origin, origin_of

_NAMED_MAX: Final = 1000
"""Records with a flaw that are named; all of them are counted."""


class Flaw(StrEnum):
    """What can be wrong with a record of a stream."""

    MISSING = "missing"
    REPEATED = "repeated"
    OUT_OF_ORDER = "out of order"
    CHANGED = "changed"


class Flawed(NamedTuple):
    """A record that has a flaw, or the first and the last of those that are missing."""

    flaw: Flaw
    stream: str
    topic: str
    first: int
    last: int
    """Equal to the first, but for missing ones."""
    partition: int = -1
    offset: int = -1
    """Where it was read; -1: it is missing."""

    def __str__(self) -> str:
        numbers = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        where = self.topic if self.offset < 0 else f"{self.topic}-{self.partition}@{self.offset}"
        return f"{where}: number {numbers} of stream {self.stream} is {self.flaw}"


@dataclass(slots=True)
class Stream:
    """What was seen of one stream."""

    topic: str
    ranges: list[list[int]] = field(default_factory=list)
    """Numbers seen, as [first, behind the last], in order."""
    lasts: dict[int, int] = field(default_factory=dict)
    """The highest number of each partition."""
    repeated: int = 0
    """Records that came again: sent twice by the client library, or read twice."""
    out_of_order: int = 0
    """Records behind one with a higher number in the same partition, the first time they came."""
    changed: int = 0
    """Records whose value has another CRC than it was sent with."""

    @property
    def missing(self) -> list[range]:
        """Numbers below the highest one that have not come, from 0 on. They may still come."""
        starts = [0, *(behind for _, behind in self.ranges)]
        return [
            range(a, b) for a, b in zip(starts, (first for first, _ in self.ranges), strict=False) if a < b
        ]

    def add(self, number: int) -> bool:
        """Whether it is new."""
        ranges = self.ranges
        if ranges and number == ranges[-1][1]:
            ranges[-1][1] = number + 1
            return True
        at = bisect_right(ranges, number, key=lambda each: each[0])
        before = ranges[at - 1] if at else None
        if before is not None and number < before[1]:
            return False
        joins_next = at < len(ranges) and ranges[at][0] == number + 1
        if before is not None and before[1] == number:
            before[1] = number + 1
            if joins_next:
                before[1] = ranges.pop(at)[1]
        elif joins_next:
            ranges[at][0] = number
        else:
            ranges.insert(at, [number, number + 1])
        return True


class Continuity:
    """What a consumer saw of every stream."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        """By their ids, as in the evidence: 16 hexadecimal digits."""
        self.unmarked = 0
        """Records without the header: other producers send them."""
        self._named: list[Flawed] = []

    @property
    def is_whole(self) -> bool:
        """Nothing is missing, repeated, out of order or changed."""
        return not any(s.missing or s.repeated or s.out_of_order or s.changed for s in self.streams.values())

    def flaws(self) -> Iterator[Flawed]:
        """What is missing by now, then the first records that were repeated, out of order or changed."""
        for name, stream in self.streams.items():
            for each in stream.missing:
                yield Flawed(Flaw.MISSING, name, stream.topic, each.start, each.stop - 1)
        yield from self._named

    def add(self, topic: str, partition: int, offset: int, value: bytes | None, headers: Any) -> None:
        """A record was read, by any client. `headers`: pairs of names and bytes, or a mapping."""
        self.note(origin_of(headers), topic, partition, offset, crc32c(value or b""))

    def note(self, origin: Origin | None, topic: str, partition: int, offset: int, crc: int) -> None:
        """A record was read; `crc` is the CRC-32C of its value."""
        if origin is None:
            self.unmarked += 1
            return
        name = f"{origin.stream:016x}"
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(topic)
        flaws = []
        if crc != origin.crc:
            stream.changed += 1
            flaws.append(Flaw.CHANGED)
        last = stream.lasts.get(partition, -1)
        if not stream.add(origin.sequence):
            stream.repeated += 1
            flaws.append(Flaw.REPEATED)
        elif origin.sequence < last:
            stream.out_of_order += 1
            flaws.append(Flaw.OUT_OF_ORDER)
        for flaw in flaws if len(self._named) < _NAMED_MAX else ():
            number = origin.sequence
            self._named.append(Flawed(flaw, name, topic, number, number, partition, offset))
        stream.lasts[partition] = max(last, origin.sequence)
