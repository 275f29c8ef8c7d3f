"""The options of ``tidelog explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli import completion
from tidelog.cli.options import flag, value
from tidelog.faults import SEARCH_FAULTS

ACKS = {"0": 0, "1": 1, "all": -1}
FLUSHES = ("roll", "always")
SEEDS = 1_000_000_000
DEFAULT_FAULTS = "crash,pause,cut,reset,elect"

Strategy = Annotated[
    str,
    value(
        "S",
        "Search strategy: random, pct or exhaustive.",
        autocompletion=completion.words("random", "pct", "exhaustive"),
    ),
]
Schedules = Annotated[int, value("N", "Maximum number of schedules.", min=1)]
Seconds = Annotated[float | None, value("S", "Stop after this time.", default=False, min=0.001)]
Seed = Annotated[
    int | None,
    value("N", "Seed of the first schedule.", default="random, printed", min=0),
]
Acks = Annotated[
    str, value("A", "acks of the producers: 0, 1 or all.", autocompletion=completion.words(*ACKS))
]
MinInsync = Annotated[int, value("N", "min.insync.replicas of the topic.", "--min-insync")]
Brokers = Annotated[int, value("N", "Brokers in the cluster.")]
Replicas = Annotated[int, value("N", "Replicas of the topic.")]
Operations = Annotated[int, value("N", "Sends and polls per schedule.", min=1, max=10_000)]
FaultBudget = Annotated[int, value("N", "Maximum faults per schedule.", "--faults-per-schedule", min=0)]
FaultList = Annotated[
    str,
    value(
        "LIST",
        f"Faults to inject: none, or a list of {', '.join(SEARCH_FAULTS)}.",
        "--faults",
        autocompletion=completion.lists(completion.search_faults),
    ),
]
InvariantOption = Annotated[
    str | None,
    value(
        "NAME",
        "Search until this invariant breaks.",
        "--invariant",
        default="any data invariant",
        autocompletion=completion.invariants,
    ),
]
Story = Annotated[
    str | None,
    value(
        "NAME",
        "Start every schedule from the end of this scenario (a name or a file).",
        "--from",
        default=False,
        autocompletion=completion.scenarios,
    ),
]
PowerLoss = Annotated[bool, flag("Allow power loss; unsynced data is lost.", "--power-loss")]
Flush = Annotated[
    str,
    value(
        "F",
        "When brokers sync their logs: roll (as Kafka by default) or always.",
        autocompletion=completion.words(*FLUSHES),
    ),
]
Idempotent = Annotated[bool, flag("Use idempotent producers.", "--idempotent")]
BatchRecords = Annotated[int, value("N", "Records of a batch: each send draws 1 to N.", min=1, max=1_000)]
Retries = Annotated[int, value("N", "Retries of a producer.", min=0)]
Depth = Annotated[int, value("D", "Exhaustive search: maximum faults per schedule.", min=0)]
Without = Annotated[
    list[str] | None,
    value(
        "GUARD", "Disable a guard of the rules; repeatable.", default=False, autocompletion=completion.guards
    ),
]
KeepGoing = Annotated[bool, flag("Do not stop at the first violation; count all of them.", "--keep-going")]
Save = Annotated[
    Path | None,
    value("FILE", "Write the shrunk schedule to this file.", default=False),
]
