"""Reads partitions of a topic from chosen offsets, to their ends or for ever, for a group if one is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidelog.errors import Refusal
from tidelog.kafka_client import groups
from tidelog.kafka_client.admin import Admin, TopicView
from tidelog.kafka_client.following import Following
from tidelog.kafka_client.leaders import OnWait
from tidelog.kafka_client.reading import ReadRecord

WHERE: Final = re.compile(r"beginning|end|-?\d{1,18}")
"""Where to begin: also at an offset, or N records before the end (-N)."""


@dataclass(frozen=True, slots=True)
class Reading:
    topic: str
    servers: str
    partitions: list[int] | None
    """None: all."""
    begin: str
    """As `WHERE`."""
    group: str | None
    """Whose committed offsets are the beginning."""
    follow: bool
    most: int | None


def read(wanted: Reading, on_wait: OnWait) -> Iterator[list[ReadRecord]]:
    """Records as they come. When the next are asked for, those before are committed for the group."""
    starts, ends = _extent(wanted)
    left = float("inf") if wanted.most is None else wanted.most
    with Following(wanted.servers, wanted.topic, starts, on_wait) as reader:
        while left > 0:
            open_ = [part for part in starts if wanted.follow or reader.positions[part] < ends[part]]
            if not open_:
                break
            before = dict(reader.positions)
            records = reader.poll(open_)
            if not wanted.follow:  # what was written since the beginning is left out
                records = [each for each in records if each.offset < ends[each.partition]]
                reader.positions |= {part: min(reader.positions[part], ends[part]) for part in open_}
            shown = records[: int(min(left, len(records)))]
            if shown:
                yield shown
            left -= len(shown)
            moved = _moved(before, reader.positions, records, len(shown))
            if wanted.group is not None and moved:
                groups.commit(wanted.servers, wanted.group, wanted.topic, moved)


def _moved(
    before: dict[int, int], after: dict[int, int], records: list[ReadRecord], shown: int
) -> dict[int, int]:
    """Where each partition goes on, after what was printed: not after what --max left out."""
    cut = {record.partition: record.offset for record in reversed(records[shown:])}
    moved = {part: min(offset, cut.get(part, offset)) for part, offset in after.items()}
    return {part: offset for part, offset in moved.items() if offset > before[part]}


# ---------------------------------------------------------------- where to begin and to end


def _extent(wanted: Reading) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset of each partition that is read, and the end of what is committed now."""
    with Admin(wanted.servers) as admin:
        (view,) = admin.topics([wanted.topic])
        admin.add_offsets([view])
    chosen = _partitions(view, wanted)
    committed = groups.committed(wanted.servers, wanted.group) or {} if wanted.group else {}
    starts, ends = {}, {}
    for part in view.partitions:
        if part.number not in chosen:
            continue
        first, end = part.start_offset, part.high_watermark
        if first is None or end is None:
            raise Refusal(
                f"{wanted.topic}-{part.number} has no leader that answers: tidelog status shows why"
            )
        start = committed.get((wanted.topic, part.number), _begin(wanted.begin, first, end))
        starts[part.number], ends[part.number] = min(max(start, first), end), end
    return starts, ends


def _partitions(view: TopicView, wanted: Reading) -> set[int]:
    known = {part.number for part in view.partitions}
    chosen = set(wanted.partitions or known)
    if missing := chosen - known:
        raise Refusal(f"{wanted.topic} has partitions 0 to {len(known) - 1}, not {min(missing)}")
    return chosen


def _begin(where: str, first: int, end: int) -> int:
    if where == "beginning":
        return first
    if where == "end":
        return end
    return end + int(where) if where.startswith("-") else int(where)
