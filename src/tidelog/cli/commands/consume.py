"""``tidelog consume``: print the records of a topic, to its end or for as long as they come."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ServersOption, TopicArgument, flag, servers_of, value
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.cli.show.waiting import Waiting
    from tidelog.kafka_client.admin import TopicView
    from tidelog.kafka_client.reading import ReadRecord

EXAMPLES = """\b
Examples:
  tidelog consume events                       everything that is there
  tidelog consume events --follow              and what comes later, until Ctrl-C
  tidelog consume events --from -10            the last ten records of each partition
  tidelog consume events --values | sort       the values alone
  tidelog consume events --group app           go on where the group stopped, and commit
"""

FromOption = Annotated[
    str, value("WHERE", "beginning, end, an offset, or -N: the last N records of each partition.", "--from")
]
PartitionOption = Annotated[
    list[int] | None, value("N", "Partition to read; repeatable.", "--partition", "-p", default="all", min=0)
]
GroupOption = Annotated[
    str | None,
    value(
        "G",
        "Begin at the offsets that group G has committed, and commit what was printed.",
        "--group",
        default=False,
    ),
]
FollowOption = Annotated[bool, flag("Go on with new records until Ctrl-C.", "--follow", "-f")]
MaxOption = Annotated[int | None, value("N", "Stop after N records.", "--max", "-n", default=False, min=1)]
ValuesOption = Annotated[bool, flag("Print the values alone, as they are, one in each line.", "--values")]
JsonLines = Annotated[bool, flag("Print each record as a line of JSON.", "--json")]

_WHERE = re.compile(r"beginning|end|-?\d{1,18}")


@dataclass(slots=True)
class _Wishes:
    topic: str
    servers: str
    partitions: list[int] | None
    begin: str
    group: str | None
    follow: bool
    left: float
    """How many records may still be printed."""


def consume(
    topic: TopicArgument,
    *,
    begin: FromOption = "beginning",
    partition: PartitionOption = None,
    follow: FollowOption = False,
    count: MaxOption = None,
    group: GroupOption = None,
    values: ValuesOption = False,
    as_json: JsonLines = False,
    bootstrap_servers: ServersOption = None,
) -> int:
    """Print the records of a topic.

    Prints what is committed when the command starts, then ends. Records of one partition come in order;
    between partitions there is no order. With --group the command does not join the group, so that all its
    partitions are read; a group with members is refused.
    """
    if values and as_json:
        raise Refusal("choose one of --values and --json")
    if not _WHERE.fullmatch(begin):
        raise Refusal(f"--from {begin}: expected beginning, end, an offset, or -N for the last N records")
    from tidelog.cli.show.records import printer
    from tidelog.cli.show.waiting import Waiting

    servers = servers_of(bootstrap_servers)
    wishes = _Wishes(topic, servers, partition, begin, group, follow, count or float("inf"))
    with Waiting() as waiting:
        try:
            _print(wishes, printer(as_json=as_json, values=values), waiting)
        except KeyboardInterrupt:
            if not follow:
                raise
    return ExitCode.HELD


def _print(wishes: _Wishes, show: Callable[[ReadRecord], None], waiting: Waiting) -> None:
    from tidelog.kafka_client import groups
    from tidelog.kafka_client.following import Following

    starts, ends = _extent(wishes)
    with Following(wishes.servers, wishes.topic, starts, waiting.now) as reader:
        while wishes.left > 0:
            wanted = [part for part in starts if wishes.follow or reader.positions[part] < ends[part]]
            if not wanted:
                break
            before = dict(reader.positions)
            records = reader.poll(wanted)
            if not wishes.follow:  # what was written since the command started
                records = [each for each in records if each.offset < ends[each.partition]]
                reader.positions |= {part: min(reader.positions[part], ends[part]) for part in wanted}
            shown = records[: int(min(wishes.left, len(records)))]
            if shown:
                waiting.over()
            for record in shown:
                show(record)
            sys.stdout.flush()
            wishes.left -= len(shown)
            if wishes.group is not None:
                moved = _read(before, reader.positions, records, len(shown))
                if moved:
                    groups.commit(wishes.servers, wishes.group, wishes.topic, moved)


def _read(
    before: dict[int, int], after: dict[int, int], records: list[ReadRecord], shown: int
) -> dict[int, int]:
    """Where each partition goes on, after what was printed: not after what --max left out."""
    cut = {record.partition: record.offset for record in reversed(records[shown:])}
    moved = {part: min(offset, cut.get(part, offset)) for part, offset in after.items()}
    return {part: offset for part, offset in moved.items() if offset > before[part]}


# ---------------------------------------------------------------- where to begin and to end


def _extent(wishes: _Wishes) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset of each partition that is read, and the end of what is committed now."""
    from tidelog.kafka_client import groups
    from tidelog.kafka_client.admin import Admin

    with Admin(wishes.servers) as admin:
        (view,) = admin.topics([wishes.topic])
        admin.add_offsets([view])
    chosen = _partitions(view, wishes)
    committed = groups.committed(wishes.servers, wishes.group) or {} if wishes.group else {}
    starts, ends = {}, {}
    for part in view.partitions:
        if part.number not in chosen:
            continue
        first, end = part.start_offset, part.high_watermark
        if first is None or end is None:
            raise Refusal(
                f"{wishes.topic}-{part.number} has no leader that answers: tidelog status shows why"
            )
        start = committed.get((wishes.topic, part.number), _begin(wishes.begin, first, end))
        starts[part.number], ends[part.number] = min(max(start, first), end), end
    return starts, ends


def _partitions(view: TopicView, wishes: _Wishes) -> set[int]:
    known = {part.number for part in view.partitions}
    chosen = set(wishes.partitions or known)
    if missing := chosen - known:
        raise Refusal(f"{wishes.topic} has partitions 0 to {len(known) - 1}, not {min(missing)}")
    return chosen


def _begin(where: str, first: int, end: int) -> int:
    if where == "beginning":
        return first
    if where == "end":
        return end
    return end + int(where) if where.startswith("-") else int(where)
