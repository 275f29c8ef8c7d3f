"""``tidelog down``: stop a cluster that runs in the background, or in another terminal."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.errors import ExitCode, Refusal
from tidelog.cli.output import counted, write_text
from tidelog.cli.running import running_cluster

_PATIENCE_SECONDS = 45.0
_POLL_SECONDS = 0.02


def down(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="D", help="The cluster's.", show_default="of the one started last"
        ),
    ] = None,
) -> int:
    """Stop a cluster cleanly.

    Example: tidelog down
    """
    found = running_cluster(data_dir)
    if found is None:
        where = f" in {data_dir}" if data_dir is not None else ""
        write_text(f"no cluster is running{where}\n")
        return ExitCode.HELD
    folder, status = found
    began = time.perf_counter()
    try:
        os.kill(status.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise Refusal(f"the cluster in {folder} belongs to another user (pid {status.pid})") from None
    while running_cluster(folder) is not None:
        if time.perf_counter() - began > _PATIENCE_SECONDS:
            raise Refusal(f"the cluster in {folder} does not end: kill -9 {status.pid}")
        time.sleep(_POLL_SECONDS)
    ended = sum(broker.state == "serving" for broker in status.brokers)
    write_text(f"stopped {counted(ended, 'broker')} in {time.perf_counter() - began:.1f} s\n")
    return ExitCode.HELD
