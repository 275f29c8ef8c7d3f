"""What the event loop itself reports: one line where asyncio would write tracebacks by the thousand.

A process that has no file descriptor left cannot accept connections. asyncio then reports an error for each
place in the queue of connections, tries again after a second, and reports again; uvloop says nothing. Clients
that are connected are served meanwhile. Anything else that the loop reports is logged as usual.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SAID_EVERY_SECONDS = 60.0


class LoopErrors:
    """The exception handler of a loop."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, message = context.get("exception"), str(context.get("message"))
        if isinstance(error, OSError) and error.errno in _NO_ROOM and message.startswith("socket.accept()"):
            if loop.time() - self._said_at >= _SAID_EVERY_SECONDS:
                self._said_at = loop.time()
                reason = (error.strerror or str(error)).lower()
                self._log.error("cannot accept connections: %s; raise the limit (ulimit -n)", reason)
        elif not (isinstance(error, ValueError) and "_start_serving" in message):
            # The exception: a second try for a listener that was closed meanwhile.
            loop.default_exception_handler(context)
