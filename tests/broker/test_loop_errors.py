"""A broker without file descriptors: it serves who is connected, and says in one line what is wrong."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from contextlib import ExitStack

import pytest

from tidelog.broker.loop_errors import LoopErrors


def test_a_listener_without_descriptors_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio's own loop reports each place in the queue of connections, with a traceback. Also when the
    listener is closed before the loop tries again."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        errors = LoopErrors(logging.getLogger("tidelog"))
        seen = 0

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            nonlocal seen
            seen += 1
            errors(loop, context)

        loop.set_exception_handler(handle)
        refused = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with ExitStack() as closing:
            closing.enter_context(pytest.MonkeyPatch.context()).setattr(
                socket.socket, "accept", _raise(refused)
            )
            server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, backlog=8)
            with socket.create_connection(server.sockets[0].getsockname()[:2]):
                while not seen:
                    await asyncio.sleep(0)
            server.close()
        retries = [each for each in loop._scheduled if "_start_serving" in repr(each)]  # type: ignore[attr-defined]
        assert retries
        for each in retries:
            each._run()
        assert seen == 2 * len(retries)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(asyncio.wait_for(scene(), 60))
    assert [record.getMessage() for record in caplog.records] == [
        "cannot accept connections: too many open files; raise the limit (ulimit -n)"
    ]
    assert not any(record.exc_info for record in caplog.records)


def _raise(error: OSError) -> object:
    def accept(_self: socket.socket) -> None:
        raise error

    return accept


def test_anything_else_is_logged_as_usual(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrors(logging.getLogger("tidelog")))
        for error in (RuntimeError("a bug"), OSError(errno.EMFILE, "of a file")):
            loop.call_exception_handler({"message": "unhandled", "exception": error})

    asyncio.run(scene())
    assert [bool(record.exc_info) for record in caplog.records] == [True, True]
