"""The memory of requests that are on their way in, bounded for all connections together.

``queued.max.request.bytes``, as Kafka's. What counts is what a connection holds of requests that are not
complete or that wait for their turn. When that reaches the bound:

* Small requests pass as ever. They are read into a buffer that all connections share, only in smaller pieces,
  so that what stays behind of them is little.
* A connection in the middle of a large request is not read from until there is room. They wait in line.
* One of them may go on all the same: else those that have a part each would wait for each other for ever. So
  what is held is at most the bound, and one request.
* If others wait, that one has ``FAVOUR_SECONDS``; then its connection is closed. Else a client that begins a
  request and does not end it would stop all others.
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
        """It has begun to receive a request, and holds nothing that is complete."""

    def look_again(self) -> None:
        """There may be room now."""

    def give_up(self, reason: str) -> None:
        """Close, and say why."""

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
        """Those who have the choice take little."""
        self._waiting: dict[Holder, None] = {}
        self._favoured: Holder | None = None
        """Who takes more than there is."""
        self._favour_ends: asyncio.TimerHandle | None = None
        self._looking: asyncio.Handle | None = None

    def may_take(self, holder: Holder, count: int) -> bool:
        """Whether it may hold so much more. If not it is told when to ask again."""
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
        """It held ``before`` and holds ``now``."""
        self.used += now - before
        self._metrics.incoming_bytes = self.used
        self.exhausted = self.used >= self._bytes_max
        if now == 0:
            self._waiting.pop(holder, None)
            if holder is self._favoured:
                self._pass_favour()
        if now < before and self._waiting and self._looking is None:
            # Not from here: whoever lets go is in the middle of something.
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
            self._watch_favour()  # it has arrived, and is worked on
        else:
            self._favoured.give_up(
                f"its request did not arrive within {FAVOUR_SECONDS:.0f} s, and others wait for the memory "
                "(queued.max.request.bytes)"
            )
