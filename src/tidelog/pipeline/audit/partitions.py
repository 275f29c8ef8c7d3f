"""The partitions of a trial, and for each the committed log at the end: what everything is held against.

It is the leader's log below its high watermark. Without a leader nothing can be read, but nothing is lost
either as long as a member of the ISR, which alone may lead again, still holds it: then it is the longest log
of a member. Where no replica can be seen (a foreign Kafka) it is what the final reader read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, int]
Row = Mapping[str, Any]


@dataclass(slots=True)
class Replica:
    broker: int
    start: int
    end: int
    high_watermark: int
    in_sync: bool | None
    """None: unknown."""
    leads: bool
    in_office: bool
    end_is_open: bool = False
    """Whether it may have been written to while it was copied, so that its end says nothing."""
    files: tuple[tuple[int, str], ...] = ()
    """Base offset and name of each segment file."""


@dataclass(slots=True)
class Part:
    """A partition. Its number is its place in the list of all of them."""

    number: int
    topic: str
    partition: int
    replicas: dict[int, Replica] = field(default_factory=dict)
    broker: int | None = None
    """Whose log counts; None: the final reader's."""
    start: int = 0
    end: int = -1
    """Exclusive; -1: nothing shows what the partition holds."""
    log_end: int = 0
    min_insync: int = 1
    compacted: bool = False
    told_end: int | None = None
    told_start: int | None = None
    isr: tuple[int, ...] = ()
    """At the end, as far as it is known."""

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def known(self) -> bool:
        return self.end >= 0

    @property
    def behind_end(self) -> int:
        """Where the log that counts ends, with what is not committed."""
        return max(self.log_end, self.end)


def list_partitions(topics: Sequence[Row], replicas: Sequence[Row], places: Collection[Place]) -> list[Part]:
    """All partitions that anything in the evidence speaks of."""
    by_place: dict[Place, dict[int, list[Row]]] = {}
    for row in replicas:
        by_place.setdefault((row["topic"], row["partition"]), {}).setdefault(row["broker"], []).append(row)
    about = {topic["name"]: topic for topic in topics}
    told = {
        (topic["name"], int(partition))
        for topic in topics
        for partition, end in dict(topic.get("ends") or {}).items()
        if end is not None
    }
    listed = sorted({*by_place, *places, *told}, key=lambda place: (str(place[0]), place[1]))
    found = []
    for number, (name, partition) in enumerate(listed):
        topic = about.get(name, {})
        configs = dict(topic.get("configs") or {})
        end = dict(topic.get("ends") or {}).get(str(partition))
        start = dict(topic.get("starts") or {}).get(str(partition))
        open_ends = dict(topic.get("open_ends") or {}).get(str(partition), ())
        found.append(
            Part(
                number,
                name,
                partition,
                {
                    broker: _replica(broker, rows, broker in open_ends)
                    for broker, rows in by_place.get((name, partition), {}).items()
                },
                min_insync=int(configs.get("min.insync.replicas", 1)),
                compacted="compact" in str(configs.get("cleanup.policy", "")),
                told_end=None if end is None else int(end),
                told_start=None if start is None else int(start),
                isr=_in_sync(by_place.get((name, partition), {})),
            )
        )
    return found


def _in_sync(rows: Mapping[int, Sequence[Row]]) -> tuple[int, ...]:
    told = (row["isr"] for of_broker in rows.values() for row in of_broker if row["isr"] is not None)
    return tuple(sorted(next(told, ())))


def _replica(broker: int, rows: Sequence[Row], end_is_open: bool) -> Replica:
    def most(column: str) -> int | None:
        return max((row[column] for row in rows if row[column] is not None), default=None)

    isr = next((row["isr"] for row in rows if row["isr"] is not None), None)
    roles = {row.get("role") for row in rows}
    return Replica(
        broker,
        most("log_start_offset") or 0,
        most("log_end_offset") or 0,
        most("high_watermark") or 0,
        None if isr is None else broker in isr,
        most("leader") == broker,
        roles == {None} or "leader" in roles,
        end_is_open,
        tuple(sorted((row["base_offset"] or 0, row["file"]) for row in rows if row.get("file"))),
    )


def choose_log(part: Part, damaged: Collection[int]) -> None:
    """Whose log counts, and where it ends. No final log is made of a damaged replica.

    The leader first, whose watermark counts unless it does not know yet that it leads; without one the
    longest log of a member of the ISR, the smallest id of equals. Where leader and ISR are unknown (the trial
    was killed), the one with the highest watermark."""
    part.broker, part.end = None, -1
    able = [
        replica
        for replica in part.replicas.values()
        if replica.broker not in damaged and (replica.leads or replica.in_sync is not False)
    ]
    if not able:
        return

    def rank(replica: Replica) -> tuple[bool, int, int, int]:
        length = replica.high_watermark if replica.in_sync is None else replica.end
        return replica.leads, length, replica.end, -replica.broker

    chosen = max(able, key=rank)
    part.broker, part.start, part.log_end = chosen.broker, chosen.start, chosen.end
    if (chosen.leads and chosen.in_office) or chosen.in_sync is None:
        # A committed end that a client was told before the cluster stopped is at least as new.
        part.end = min(max(chosen.high_watermark, part.told_end or 0), chosen.end)
    else:
        part.end = chosen.end if part.told_end is None else min(chosen.end, part.told_end)


def end_by_reads(part: Part, first: int | None, last: int | None) -> None:
    """Where the log ends that the final reader read."""
    part.broker = None
    start = part.told_start if part.told_start is not None else first
    part.start = 0 if start is None else start
    part.end = max(0 if last is None else last + 1, part.told_end or 0)
    part.log_end = part.end
