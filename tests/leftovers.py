"""No process that a test started outlives the process that ran the test, however that one ends.

Every process of pytest puts a mark into its environment, which everything it starts inherits, and starts a
watcher that reads from a pipe. When the pipe ends, because pytest ended or was killed, the watcher kills
every process with the mark: brokers, Java, also those that were detached on purpose. A test that stops what
it started leaves it nothing to do.

Run as a program this file is the watcher. Marks are read in /proc: elsewhere than on Linux nothing is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress

NAME = "TIDELOG_TEST_PROCESS"
ROUNDS_MAX = 20


class Leftovers:
    """A pytest plugin, in every process of a run."""

    def __init__(self) -> None:
        mark = uuid.uuid4().hex
        own = {name: value for name, value in os.environ.items() if name != NAME}
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", __file__, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=own,
            start_new_session=True,
        )
        os.environ[NAME] = mark

    def pytest_unconfigure(self) -> None:
        self._watcher.communicate()


def carriers(mark: str) -> Iterator[int]:
    """The processes whose environment has this mark."""
    entry = f"{NAME}={mark}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/environ", "rb") as environment:
                    found = entry in environment.read().split(b"\0")
            except OSError:  # it has ended, or is not ours
                continue
            if found:
                yield int(name)


def watch(mark: str) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    for _ in range(ROUNDS_MAX):  # who is killed may have started another just before
        alive = list(carriers(mark))
        if not alive:
            return
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    watch(sys.argv[1])
