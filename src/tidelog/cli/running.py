"""The cluster that a command uses if the user names none: the last one started on this machine.

`$XDG_STATE_HOME/tidelog` (`~/.local/state/tidelog`) holds `latest`, the path of that cluster's data
directory, and `cluster`, the default data directory of a detached cluster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_SERVERS = "127.0.0.1:9092"

ServersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="H:P,…",
        help="Bootstrap servers.",
        show_default=f"the running cluster, else {DEFAULT_SERVERS}",
    ),
]


def state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tidelog"


def detached_dir() -> Path:
    return state_dir() / "cluster"


def remember(data_dir: Path) -> None:
    """Make this the default cluster of later commands. Errors are ignored: the default is a convenience."""
    try:
        state_dir().mkdir(parents=True, exist_ok=True)
        (state_dir() / "latest").write_text(f"{data_dir}\n", "utf-8")
    except OSError:
        pass


def latest_dir() -> Path | None:
    try:
        return Path((state_dir() / "latest").read_text("utf-8").strip())
    except OSError:
        return None


def likely_dirs() -> list[Path]:
    """Default places to look for a running cluster. The last one started comes first."""
    return [folder for folder in (latest_dir(), detached_dir()) if folder is not None]


def servers(given: str | None) -> str:
    """The bootstrap servers to use."""
    from tidelog.cluster.directory import running

    if given:
        return given
    clusters = (running(folder) for folder in likely_dirs())
    return next((found.bootstrap_servers for found in clusters if found is not None), "") or DEFAULT_SERVERS
