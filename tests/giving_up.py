"""Cancelling a start at each moment at which it can be cancelled, and looking at what it left open."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import types
from collections.abc import Coroutine, Generator
from functools import partial
from itertools import count
from typing import Any


async def cancelled_at(moment: int, start: Coroutine[Any, Any, object]) -> bool:
    """Run ``start`` and cancel it at a moment; False if it was done before that moment came.

    Each time it waits has two moments: when it begins to wait, and when what it waited for is there but was
    not taken yet. Counted in waits, not in time, so every run meets all of them.
    """
    running = asyncio.ensure_future(_run(moment, start))
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()
        assert not running.cancelling(), "it was cancelled, and went on as if nothing had happened"
    return running.cancelled()


@types.coroutine
def _run(moment: int, work: Coroutine[Any, Any, object]) -> Generator[Any, None, None]:
    task = asyncio.current_task()
    assert task is not None
    resume = partial(work.send, None)
    for wait in count():
        try:
            awaited = resume()
        except StopIteration:
            return
        if wait == moment // 2:
            if moment % 2 and awaited is not None:
                awaited.add_done_callback(lambda _: task.cancel())
            else:
                task.cancel()
        try:
            yield awaited
            resume = partial(work.send, None)
        except BaseException as error:
            resume = partial(work.throw, error)


def listening() -> set[int]:
    """The ports on which this process listens."""
    return {port for number in _descriptors() if (port := _listens_on(number))}


def _descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/dev/fd")]


def _listens_on(number: int) -> int:
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return 0
    except OSError:  # it was closed since: the folder itself is one of those listed
        return 0
    with socket.socket(fileno=os.dup(number)) as own:
        listens = own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return int(own.getsockname()[1]) if listens and own.family != socket.AF_UNIX else 0
