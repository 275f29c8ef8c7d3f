"""Bounds the memory of incoming requests, over all connections.

The limit is ``queued.max.request.bytes``, as in Kafka. Incomplete and waiting requests count. At the limit:

* Small requests are still served. They are read into a buffer that all connections share, in smaller pieces,
  so that little memory remains in use.
* A connection in the middle of a large request is not read until there is room. Such connections wait in a
  queue.
* One of them may continue: otherwise connections with partial requests would wait for each other forever. So
  memory is at most the limit plus one request.
* If others wait, that connection has ``FAVOUR_SECONDS`` and is then closed. Otherwise a client with an
  unfinished request could block all others.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tidelog.broker.metrics.counters import Metrics

FAVOUR_SECONDS = 30.0
UNBOUNDED = -1


class Holder(Protocol):
    """A connection."""

    @property
    def arriving(self) -> bool:
        """Whether it holds only an incomplete request."""

    def look_again(self) -> None:
        """Called when there may be room."""

    def give_up(self, reason: str) -> None:
        """Close the connection and log the reason."""

    def __hash__(self) -> int: ...


class FrameMemory:
    __slots__ = (
        "_bytes_max",
        "_favour_ends",
        "_favoured",
        "_looking",
        "_metrics",
        "_waiting",
        "exhausted",
        "used",
    )

    def __init__(self, bytes_max: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._bytes_max = float("inf") if bytes_max == UNBOUNDED else bytes_max
        self.used = 0
        self.exhausted = False
        """The limit is reached: connections read in smaller pieces."""
        self._waiting: dict[Holder, None] = {}
        self._favoured: Holder | None = None
        """The connection that may exceed the limit."""
        self._favour_ends: asyncio.TimerHandle | None = None
        self._looking: asyncio.Handle | None = None

    def may_take(self, holder: Holder, count: int) -> bool:
        """Whether the connection may hold ``count`` more bytes. If not, ``look_again`` is called later."""
        if self.used + count <= self._bytes_max:
            pass
        elif self._favoured is None or self._favoured is holder:
            self._favoured = holder
        else:
            self._waiting[holder] = None
            if self._favour_ends is None:
                self._watch_favour()
            return False
        self._waiting.pop(holder, None)
        return True

    def changed(self, holder: Holder, before: int, now: int) -> None:
        """The connection held ``before`` bytes and now holds ``now``."""
        self.used += now - before
        self._metrics.incoming_bytes = self.used
        self.exhausted = self.used >= self._bytes_max
        if now == 0:
            self._waiting.pop(holder, None)
            if holder is self._favoured:
                self._pass_favour()
        if now < before and self._waiting and self._looking is None:
            # Not directly: the caller is in the middle of handling its data.
            self._looking = asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looking = None
        for holder in list(self._waiting):
            holder.look_again()
            if holder in self._waiting:
                return

    def _pass_favour(self) -> None:
        self._favoured = None
        if self._favour_ends is not None:
            self._favour_ends.cancel()
            self._favour_ends = None

    def _watch_favour(self) -> None:
        self._favour_ends = asyncio.get_running_loop().call_later(FAVOUR_SECONDS, self._end_favour)

    def _end_favour(self) -> None:
        self._favour_ends = None
        if self._favoured is None or not self._waiting:
            return
        if not self._favoured.arriving:
            self._watch_favour()  # the request is complete and being handled
        else:
            self._favoured.give_up(
                f"its request did not arrive within {FAVOUR_SECONDS:.0f} s, and others wait for the memory "
                "(queued.max.request.bytes)"
            )
