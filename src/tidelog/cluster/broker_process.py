"""One broker as a process of its own: started from a properties file, listened to, and ended.

What a broker promises its supervisor: a line on stdout once it is registered and another once it serves
(`serving id=1 host=127.0.0.1 port=9092 metrics=9404`), its log on stderr, a controlled shutdown at SIGTERM or
when its standard input ends (`broker.forkserver`): no broker outlives its cluster. What it is asked over that
input it answers on stdout (`broker.control`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cluster.forkserver import ForkServer

_SAID = re.compile(
    r"(?P<state>registered|serving) id=(?P<id>\d+) "
    r"host=(?P<host>\S+) port=(?P<port>\d+) metrics=(?P<metrics>\S+)"
)
_ANSWER = "answer "
_LAST_LINES = 20
_LINE_BYTES_MAX = 16 * 1024


class BrokerState(StrEnum):
    STARTING = "starting"
    REGISTERED = "registered"
    """The cluster can know of it; it serves when a controller has reached it."""
    SERVING = "serving"
    ENDED = "ended"


class Serving(NamedTuple):
    """Where a broker can be reached. `metrics_port` is -1 if it has none."""

    host: str
    port: int
    metrics_port: int


class BrokerProcess:
    def __init__(
        self,
        number: int,
        properties: Path,
        on_line: Callable[[int, str], None],
        on_end: Callable[[BrokerProcess], None],
    ) -> None:
        """`on_end` is called once the process has ended and everything it said was passed on."""
        self.id = number
        self.properties = properties
        self.pid = 0
        self.alive = False
        self.exit_code: int | None = None
        """Negative if a signal ended it; None while it runs, or if it is not known."""
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.expected_to_end = False
        self._on_line = on_line
        self._on_end = on_end
        self._stdin = -1
        self._asked = 0
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._reached: dict[BrokerState, asyncio.Future[Serving]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def start(self, server: ForkServer) -> None:
        """Raises `ForkServerError` if the fork server has ended."""
        loop = asyncio.get_running_loop()
        theirs_in, self._stdin = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        readers = [await _reader(loop, ours_out), await _reader(loop, ours_err)]
        try:
            self.pid = await server.fork(self.properties, [theirs_in, theirs_out, theirs_err])
        except BaseException:
            os.close(self._stdin)
            raise
        finally:
            for descriptor in (theirs_in, theirs_out, theirs_err):
                os.close(descriptor)
        self.alive = True
        self._reached = {
            state: loop.create_future() for state in (BrokerState.REGISTERED, BrokerState.SERVING)
        }
        self._watch = asyncio.create_task(self._follow(server, readers))

    async def reached(self, state: BrokerState) -> Serving:
        """Where it serves, or will, once it is registered, or serves. Raises `EOFError` if it ends before."""
        if state not in self._reached:
            raise EOFError
        return await asyncio.shield(self._reached[state])

    def signal(self, sent: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sent)

    async def ask(self, command: Mapping[str, Any]) -> None:
        """Have something done inside the broker. Raises `EOFError` if it ends before, and `ValueError` with
        its complaint."""
        if not self.alive:
            raise EOFError
        self._asked += 1
        waiting = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        try:
            os.write(self._stdin, json.dumps({"id": self._asked, **command}).encode() + b"\n")
            if complaint := await waiting:
                raise ValueError(complaint)
        except BrokenPipeError:
            raise EOFError from None
        finally:
            waiting.cancel()

    async def ended(self) -> None:
        """Until the process has ended and `on_end` was called."""
        if self._watch is not None:
            await asyncio.shield(self._watch)

    # ------------------------------------------------------------ listening to it

    async def _follow(self, server: ForkServer, readers: list[asyncio.StreamReader]) -> None:
        reached = self._reached

        def printed(line: str) -> None:
            if line.startswith(_ANSWER):
                self._answered(json.loads(line.removeprefix(_ANSWER)))
                return
            found = _SAID.fullmatch(line)
            waiting = reached[BrokerState(found["state"])] if found else None
            if found and waiting and not waiting.done():
                port = found["metrics"]
                waiting.set_result(
                    Serving(found["host"], int(found["port"]), int(port) if port.isdigit() else -1)
                )
            else:
                logged(line)

        def logged(line: str) -> None:
            self.last_lines.append(line)
            self._on_line(self.id, line)

        await asyncio.gather(_lines(readers[0], printed), _lines(readers[1], logged))
        self.exit_code = await server.ended(self.pid)
        self.alive = False
        os.close(self._stdin)
        for waiting in reached.values():
            if not waiting.done():
                waiting.set_exception(EOFError())
                waiting.exception()  # looked at: perhaps nothing waits
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EOFError())
        self._on_end(self)

    def _answered(self, answer: dict[str, Any]) -> None:
        waiting = self._answers.pop(answer["id"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.get("error", ""))


async def _reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _lines(stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
    """Pass on what comes, line by line; a line without an end is cut rather than kept in memory."""
    rest = b""
    while data := await stream.read(_LINE_BYTES_MAX):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            take(line.decode("utf-8", "replace").rstrip())
        if len(rest) >= _LINE_BYTES_MAX:
            take(rest.decode("utf-8", "replace"))
            rest = b""
    if rest:
        take(rest.decode("utf-8", "replace").rstrip())


def exit_summary(process: BrokerProcess) -> str:
    """How a broker ended, in one line: with its last words, unless it was killed without having any."""
    code = process.exit_code
    if code is None:
        return f"broker {process.id} ended"
    if code < 0:
        return f"broker {process.id} was ended by {_signal_name(-code)}"
    said = process.last_lines[-1].removeprefix(f"tidelog broker {process.id}: ") if process.last_lines else ""
    return f"broker {process.id} ended with exit code {code}{f': {said}' if said else ''}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
