"""The options of ``tidelog sweep``: most have the values of one axis of the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import completion
from tidelog.cli.options import flag, value
from tidelog.cli.paths import absolute
from tidelog.faults import SEARCH_FAULTS


def _axis(flag: str, metavar: str, help_: str, names: Callable[[], Iterable[str]] | None = None) -> Any:
    return value(metavar, help_, flag, default=False, autocompletion=names and completion.lists(names))


GridArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="GRID.toml",
        callback=absolute,
        help="File with the values of each setting.",
        show_default=False,
    ),
]
Generations = Annotated[
    str | None,
    _axis(
        "--generation",
        "LIST",
        "Replication rules: hw, kip101, epoch, elr, majority.",
        lambda: completion.generations(""),
    ),
]
Acks = Annotated[
    str | None, _axis("--acks", "LIST", "acks of the producers: 0, 1, all.", lambda: ("0", "1", "all"))
]
Replicas = Annotated[str | None, _axis("--replicas", "LIST", "Replicas of the topic.")]
MinInsync = Annotated[str | None, _axis("--min-insync", "LIST", "min.insync.replicas of the topic.")]
Unclean = Annotated[
    str | None, _axis("--unclean", "LIST", "Unclean leader election: no, yes.", lambda: ("no", "yes"))
]
Flush = Annotated[
    str | None,
    _axis(
        "--flush",
        "LIST",
        "When brokers sync their logs: roll (as Kafka by default), always.",
        lambda: ("roll", "always"),
    ),
]
Idempotence = Annotated[
    str | None, _axis("--idempotence", "LIST", "Idempotent producers: no, yes.", lambda: ("no", "yes"))
]
Retries = Annotated[str | None, _axis("--retries", "LIST", "Retries of a producer.")]
IsrRules = Annotated[
    str | None,
    _axis(
        "--isr-rule",
        "LIST",
        "Rule that removes a replica from the ISR: caught-up-time, fetch-time, message-lag.",
        lambda: ("caught-up-time", "fetch-time", "message-lag"),
    ),
]
FaultMixes = Annotated[
    str | None,
    _axis(
        "--faults",
        "LIST",
        f"Faults to inject: {', '.join(SEARCH_FAULTS)}; crash+power for both; "
        "or none, network, all, all-power.",
        completion.search_faults,
    ),
]
Zones = Annotated[str | None, _axis("--zones", "LIST", "Number of zones of the brokers.")]
Without = Annotated[
    str | None,
    _axis("--without", "LIST", "Guards of the rules to disable: none, kip320, or their names."),
]
Seeds = Annotated[int | None, value("N", "Trials per cell.", "--seeds", default="400", min=1)]
Out = Annotated[Path, value("DIR", "Output directory.", "--out", callback=absolute)]
Fresh = Annotated[bool, flag("Delete earlier results and start over.", "--fresh")]
Yes = Annotated[bool, flag("Allow sweeps longer than an hour.", "--yes")]
Replay = Annotated[
    str | None,
    value("CELL:SEED", "Print one trial as a scenario file.", default=False),
]
Save = Annotated[
    Path | None,
    value("FILE", "With --replay: write it to this file.", default=False),
]
