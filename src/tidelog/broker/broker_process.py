"""One broker as a child process: started from a properties file, listened to, and ended.

What a broker promises whoever starts it: one line on stdout once it serves (`serving id=1 host=127.0.0.1
port=9092 metrics=9404`), its log on stderr, a controlled shutdown at SIGTERM or when its standard input ends
(`supervised`): no broker outlives its cluster.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_SERVING = re.compile(
    r"serving id=(?P<id>\d+) host=(?P<host>\S+) port=(?P<port>\d+) metrics=(?P<metrics>\S+)"
)
_LAST_LINES = 20
_LINE_BYTES_MAX = 16 * 1024


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
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.expected_to_end = False
        self._on_line = on_line
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._serving: asyncio.Future[Serving] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._process.returncode if self._process is not None else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        self._serving = asyncio.get_running_loop().create_future()
        # A session of its own: Ctrl-C in the terminal is for whoever started us, who then stops us in order.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tidelog.broker.supervised",
            str(self.properties),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._watch = asyncio.create_task(self._follow(self._process, self._serving))

    async def serving(self) -> Serving:
        """Where it serves, once it does. Raises `EOFError` if it ends before."""
        if self._serving is None:
            raise EOFError
        return await asyncio.shield(self._serving)

    def signal(self, sent: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(sent)

    async def ended(self) -> None:
        """Until the process has ended and `on_end` was called."""
        if self._watch is not None:
            await asyncio.shield(self._watch)

    # ------------------------------------------------------------ listening to it

    async def _follow(self, process: asyncio.subprocess.Process, serving: asyncio.Future[Serving]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None

        def printed(line: str) -> None:
            found = _SERVING.fullmatch(line)
            if found and not serving.done():
                port = found["metrics"]
                serving.set_result(
                    Serving(found["host"], int(found["port"]), int(port) if port.isdigit() else -1)
                )
            else:
                logged(line)

        def logged(line: str) -> None:
            self.last_lines.append(line)
            self._on_line(self.id, line)

        await asyncio.gather(_lines(process.stdout, printed), _lines(process.stderr, logged))
        await process.wait()
        if not serving.done():
            serving.set_exception(EOFError())
            serving.exception()  # looked at: perhaps nobody waits
        self._on_end(self)


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
