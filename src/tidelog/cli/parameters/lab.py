"""The options of ``tidelog lab``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import completion
from tidelog.cli.options import flag, value

PORT = 8484
"""Always the same, so that links and bookmarks of yesterday open today."""

Named = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO|FILE]",
        help="Scenario to open: a name from 'tidelog scenario list', or a file.",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
Generation = Annotated[
    str | None,
    value(
        "G",
        "Replication rules: hw, kip101, epoch, elr or majority.",
        "--generation",
        "-g",
        default=False,
        autocompletion=completion.generations,
    ),
]
Host = Annotated[str, value("H", "Address to listen on.")]
Port = Annotated[int, value("P", "Port to listen on; 0 picks a free port.", min=0, max=65_535)]
NoBrowser = Annotated[bool, flag("Do not open a browser.", "--no-browser")]
Export = Annotated[
    Path | None,
    value("FILE", "Write a self-contained HTML file and exit.", default=False),
]
WithPython = Annotated[
    bool,
    flag(
        "With --export: include Python, so that stories can be changed there (8 MB; needs npm).",
        "--with-python",
    ),
]
Site = Annotated[
    Path | None,
    value("DIR", "Write a static site with Python for browsers and exit (needs npm).", default=False),
]
Chosen = Annotated[
    list[str] | None,
    value(
        "NAME",
        "With --export: scenario to include (a name or a file); repeatable.",
        "--scenario",
        default="the whole catalogue",
        autocompletion=completion.scenarios,
    ),
]
