"""``tidelog consume``: print the records of a topic, to its end or for as long as they come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ServersOption, TopicArgument, flag, servers_of, value
from tidelog.errors import Refusal

if TYPE_CHECKING:
    pass

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
    from tidelog.cli.show.records import printer
    from tidelog.cli.show.waiting import Waiting
    from tidelog.kafka_client.consuming import WHERE, Reading, read

    if group is not None and not group.strip():
        raise Refusal("--group is empty: give the name of a group, or leave it out")
    if not WHERE.fullmatch(begin):
        raise Refusal(f"--from {begin}: expected beginning, end, an offset, or -N for the last N records")
    wanted = Reading(topic, servers_of(bootstrap_servers), partition, begin, group, follow, count)
    show = printer(as_json=as_json, values=values)
    with Waiting() as waiting:
        try:
            for records in read(wanted, waiting.now):
                waiting.over()
                for record in records:
                    show(record)
                sys.stdout.flush()
        except KeyboardInterrupt:
            if not follow:
                raise
    return ExitCode.HELD
