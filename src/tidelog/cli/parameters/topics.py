"""The options of ``tidelog topics``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli import completion
from tidelog.cli.options import flag, value

TopicsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Topic names.", show_default="all topics")
]
ConfigOption = Annotated[
    list[str] | None,
    value(
        "NAME=VALUE",
        "Topic setting; repeatable.",
        "--config",
        "-c",
        default=False,
        autocompletion=completion.topic_settings,
    ),
]
PartitionsOption = Annotated[
    int | None,
    value("N", "Number of partitions.", "--partitions", "-p", default="num.partitions of the cluster", min=1),
]
ReplicasOption = Annotated[
    int | None,
    value(
        "N",
        "Replicas of each partition.",
        "--replicas",
        "-r",
        default="default.replication.factor of the cluster",
        min=1,
    ),
]
NamesArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC…", help="Topic names.", show_default=False)
]
RemoveOption = Annotated[
    list[str] | None,
    value("NAME", "Reset a setting to its default; repeatable.", "--delete-config", default=False),
]
CountArgument = Annotated[
    int, typer.Argument(min=1, metavar="N", help="New number of partitions.", show_default=False)
]
BrokersOption = Annotated[
    str | None,
    value(
        "N,N…",
        "The brokers that hold the replicas afterwards; the first is the preferred leader.",
        "--replicas",
        "-r",
        default=False,
    ),
]
MovedOption = Annotated[
    list[int] | None,
    value("N", "Partition to move; repeatable.", "--partition", "-p", default="all partitions", min=0),
]
CancelOption = Annotated[bool, flag("Cancel moves: the partitions keep their replicas.", "--cancel")]
ThrottleOption = Annotated[
    str | None,
    value(
        "RATE",
        "Copy at most so many bytes a second, from and to each broker: 500000, 500k, 10M. "
        "Without --replicas: throttle the moves under way.",
        "--throttle",
        default=False,
    ),
]
UnthrottleOption = Annotated[bool, flag("Remove the throttle of moves, and nothing else.", "--unthrottle")]
WaitOption = Annotated[
    int, value("SECONDS", "Wait so long for the moves to end; 0: do not wait.", "--wait", min=0)
]
