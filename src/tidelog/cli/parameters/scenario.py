"""The options of ``tidelog scenario``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli import completion
from tidelog.cli.options import flag, value
from tidelog.cli.paths import absolute

STAGES = ("sim", "cluster")

StageOption = Annotated[
    str,
    value(
        "STAGE",
        "Where to play it: sim (simulator) or cluster (broker processes).",
        autocompletion=completion.words(*STAGES),
    ),
]
Generations = Annotated[
    list[str] | None,
    value(
        "G",
        "Generation to compare; give two or more.",
        "--generation",
        "-g",
        default="hw and epoch",
        autocompletion=completion.generations,
    ),
]
StagesOption = Annotated[
    bool,
    flag("Compare the simulator with broker processes, under one generation.", "--stages"),
]
PaceOption = Annotated[
    float | None,
    value(
        "F",
        "On broker processes: real seconds per second of the scenario.",
        default="0.25 to 1, by machine load",
    ),
]
DetailOption = Annotated[
    bool,
    flag(
        "Also print what brokers, controller, keeper and clients know: Remote LEO, parked fetches, "
        "epoch tables, checkpoints, cached metadata. JSON always has it.",
        "--detail",
    ),
]
EvidenceOption = Annotated[
    Path | None,
    value(
        "DIR",
        "With --stage sim: write evidence for tidelog audit to this directory.",
        default=False,
        callback=absolute,
    ),
]
