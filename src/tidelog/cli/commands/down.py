"""``tidelog down``: stop a cluster that runs in the background or in another terminal.

The supervisor of the cluster stops its brokers in order, including those started by hand. This command stops
the brokers that are left after that: the supervisor may have been killed, or may be of another version.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ClusterDirOption
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal
from tidelog.narrate.numbers import counted

if TYPE_CHECKING:
    from tidelog.cluster.directory import Ending
    from tidelog.storage.lock_file import Process

_NAMED_SECONDS = 1.0
_SUPERVISOR_SECONDS = 45.0
_BROKERS_SECONDS = 30.0
_KILLED_SECONDS = 5.0
_POLL_SECONDS = 0.02


def down(
    data_dir: ClusterDirOption = None,
) -> int:
    """Stop a cluster and all its brokers.

    Stops cleanly, and includes brokers restarted by hand.

    \b
    Example: tidelog down
    Exit code: 0 stopped or not running, 1 a process does not stop, 2 wrong usage.
    """
    from tidelog.cluster.directory import in_use, likely_dirs

    folder = in_use(likely_dirs() if data_dir is None else [data_dir])
    if folder is None:
        where = f" in {data_dir}" if data_dir is not None else ""
        write_text(f"no cluster is running{where}\n")
        return ExitCode.HELD
    return _stop(folder)


def _stop(folder: Path) -> int:
    from tidelog.cluster.directory import LOCK_FILE, Ending, running_brokers
    from tidelog.storage.lock_file import holder, is_held

    began = time.perf_counter()
    seen = _processes(folder)
    lock = folder / LOCK_FILE
    _until(lambda: holder(lock) is not None or not is_held(lock), _NAMED_SECONDS)
    supervisor = holder(lock)
    if supervisor is not None:
        _ask(supervisor, folder)
        if not _until(lambda: holder(lock) != supervisor, _SUPERVISOR_SECONDS):
            return _failed(f"the cluster in {folder} does not stop: kill -9 {supervisor.pid}")
    elif is_held(lock):
        return _failed(f"a cluster runs in {folder}, but {lock} does not name its process: stop it by hand")
    ending = Ending(folder)
    _end_brokers(ending)
    left = running_brokers(folder)
    ended = (seen | ending.asked) - {broker.process for broker in left}
    what = counted(len(ended), "broker") if ended or left else "a cluster that was starting"
    write_text(f"stopped {what} in {time.perf_counter() - began:.1f} s\n")
    if not left:
        return ExitCode.HELD
    why = "belongs to another user" if left[0].process in ending.of_others else "does not stop"
    return _failed(f"{left[0]} in {folder} {why}")


def _processes(folder: Path) -> set[Process]:
    from tidelog.cluster.directory import running_brokers

    return {broker.process for broker in running_brokers(folder) if broker.process is not None}


def _ask(supervisor: Process, folder: Path) -> None:
    try:
        os.kill(supervisor.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise Refusal(f"the cluster in {folder} belongs to another user (pid {supervisor.pid})") from None


def _end_brokers(ending: Ending) -> None:
    if not _until(lambda: not ending.ask(), _BROKERS_SECONDS):
        ending.kill()
        _until(lambda: not ending.ask(), _KILLED_SECONDS)


def _until(is_true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _failed(message: str) -> int:
    print(f"tidelog: {message}", file=sys.stderr)
    return ExitCode.VIOLATED
