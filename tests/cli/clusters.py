"""`tidelog up` in a process of its own, as a person starts it, and what it says."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import PATIENCE_SECONDS, is_alive
from tests.cli.calling import COMMAND, environment

READY = re.compile(
    r"ready in \d+\.\d s · (?P<count>\d+) brokers? · generation (?P<generation>\w+)"
    r" · bootstrap\.servers=(?P<servers>\S+)"
)


def eventually(check: Callable[[], bool], what: str = "") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < deadline, f"it does not become true: {what}"
        time.sleep(0.02)


class Up:
    """Started by `with`; stopped at its end, whatever became of it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """`folder` holds the state that commands share, and the temporary directories."""
        self.folder = folder
        self.environment = environment(80, XDG_STATE_HOME=str(folder / "state"), TMPDIR=str(folder))
        self._arguments = arguments
        self.errors = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--port", "0", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=self.environment,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            # A shell has what it runs in the background ignore Ctrl-C, and that is inherited.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        self._reading = threading.Thread(target=self._read_errors, daemon=True)
        self._reading.start()
        return self

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    def line(self) -> str:
        """The next line on stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def status(self) -> dict[str, Any]:
        """What runs, from the file that `latest` leads to."""
        latest = Path((self.folder / "state" / "tidelog" / "latest").read_text().strip())
        status: dict[str, Any] = json.loads((latest / "cluster.json").read_text("utf-8"))
        return status

    def pids(self) -> list[int]:
        return [broker["pid"] for broker in self.status()["brokers"]]

    def end(self, sent: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end, wait until it has, return its exit code."""
        self.process.send_signal(sent)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reading.join(PATIENCE_SECONDS)
        return code

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Another command beside it, in the same environment."""
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            capture_output=True,
            env=self.environment,
            check=False,
            timeout=PATIENCE_SECONDS,
            text=True,
            encoding="utf-8",
        )


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
