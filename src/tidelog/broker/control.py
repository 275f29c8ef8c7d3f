"""What a supervisor may ask of a broker that it has started: JSON lines on stdin, answers on stdout.

    {"id": 1, "do": "rule", "rule": {…}}      →   answer {"id": 1}
    {"id": 2, "do": "remove", "number": 7}    →   answer {"id": 2}

Standard input is a pipe whose other end only the supervisor has, so nothing else can reach this. A broker
that was started by hand has no such pipe, and reads nothing from a terminal. When the pipe ends, the
supervisor is gone, and the broker shuts down (`forkserver`).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.interference import Interference, Rule

if TYPE_CHECKING:
    from tidelog.broker.server import Server

ANSWER: Final = "answer "


class Mailbox:
    """Lines from the thread that reads standard input, for the event loop once there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._take: Callable[[bytes], None] | None = None

    def put(self, line: bytes) -> None:
        with self._lock:
            if self._take is None:
                self._waiting.append(line)
            else:
                self._take(line)

    def open(self, take: Callable[[bytes], None]) -> None:
        """From now on lines are taken, in the event loop; first those that wait."""
        loop = asyncio.get_running_loop()
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._take = lambda line: _later(loop, take, line)
        for line in waiting:
            take(line)


def _later(loop: asyncio.AbstractEventLoop, take: Callable[[bytes], None], line: bytes) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(take, line)


MAILBOX: Final = Mailbox()


class Control:
    def __init__(self, server: Server) -> None:
        self._interference = Interference(server)

    def take(self, line: bytes) -> None:
        command = json.loads(line)
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            if command["do"] == "rule":
                self._interference.add(Rule(**command["rule"]))
            else:
                self._interference.remove(command["number"])
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        print(ANSWER + json.dumps(answer), flush=True)
