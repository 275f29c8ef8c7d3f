"""The processes beside the cluster: the neighbour, and the lab's page. Each ends with its `with`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.processes import Unavailable, eventually

from fuzz.neighbour import Account
from fuzz.target import Target
from fuzz.vocabulary import PARTITIONS

_TIDELOG: Final = str(Path(sys.executable).with_name("tidelog"))
_PAGE: Final = re.compile(r"http://([^:/\s]+):(\d+)/")
_READY_SECONDS: Final = 60.0
_END_SECONDS: Final = 180.0


class _Process:
    """A process whose lines are taken one by one. It ends when its standard input does, or is ended."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self.lines: list[str] = []
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.take(line.rstrip("\n"))

    def take(self, line: str) -> None:
        self.lines.append(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self, *, at_once: bool) -> None:
        """Close its input and wait; what does not end is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        if at_once:
            self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._reading.is_alive() and not self.alive:
            return
        self.end(at_once=True)


class NeighbourProcess(_Process):
    def __init__(self, target: Target) -> None:
        self.account = Account()
        super().__init__(
            *(sys.executable, "-m", "fuzz.neighbour"),
            *(target.bootstrap_servers, target.neighbours_topic, str(PARTITIONS)),
        )

    def take(self, line: str) -> None:
        try:
            self.account = Account(**json.loads(line))
        except (ValueError, TypeError):
            self.lines.append(line)  # a library's complaint, or its last words

    def wait_until_it_works(self) -> None:
        """Raises `Unavailable`."""
        with suppress(TimeoutError):
            eventually(
                lambda: self.account.acknowledged > 0 or not self.alive, "an acknowledgement", _READY_SECONDS
            )
        if not self.account.acknowledged:
            raise Unavailable(f"the neighbour cannot write: {' / '.join(self.lines[-3:]) or 'no answer'}")

    def finish(self) -> Account:
        """Let it read to the end."""
        self.end(at_once=False)
        return self.account


class Page(_Process):
    """`tidelog lab`, without a browser."""

    def __init__(self) -> None:
        super().__init__(_TIDELOG, "lab", "--no-browser", "--port", "0")

    def address(self) -> tuple[str, int]:
        """Raises `Unavailable` if it does not start."""
        try:
            found = eventually(
                lambda: next(filter(None, map(_PAGE.search, self.lines)), None), "the page", _READY_SECONDS
            )
        except TimeoutError:
            raise Unavailable(f"tidelog lab did not start: {' / '.join(self.lines[-3:])}") from None
        return found[1], int(found[2])
