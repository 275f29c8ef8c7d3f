"""Controlled shutdown: the broker asks the controller to move its leaderships, then stops.

Moving many leaderships takes time, so an attempt waits for the answer, at most
``controller.socket.timeout.ms``. The next attempt follows after ``controlled.shutdown.retry.backoff.ms`` when
something could not be moved yet or the controller cannot be reached, and at once when another controller
sends a request: the old one will not answer any more. After ``controlled.shutdown.max.retries`` attempts the
broker stops without having moved everything.

A partition that is given up is not followed (``replica.py``): the old leader would be in sync again, or hold
the new one's high watermark back, just before it is gone. Kafka's ``ReplicaManager`` does so too.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.core.context import Context
from tidelog.core.messages import ControlledShutdownRequest, ControlledShutdownResponse
from tidelog.core.timers import Timer
from tidelog.core.types import NO_LEADER, BrokerId, Millis
from tidelog.wire.errors import ErrorCode


class Departure:
    __slots__ = ("_asked", "_attempts", "_controller", "_ctx", "_left", "_next", "_on_left")

    def __init__(self, ctx: Context, on_left: Callable[[], None]) -> None:
        self._ctx = ctx
        self._on_left = on_left
        self._attempts = 0
        self._controller = NO_LEADER
        """The last controller that sent a request."""
        self._asked = NO_LEADER
        """The controller that has not answered yet."""
        self._next: Timer | None = None
        self._left = False

    @property
    def _begun(self) -> bool:
        return self._attempts > 0 and not self._left

    def begin(self, now: Millis) -> None:
        if not self._attempts:
            self._ctx.is_leaving = True
            self._attempt(now)

    def heard_of(self, controller: BrokerId, now: Millis) -> None:
        self._controller = controller
        if self._begun and self._asked not in (NO_LEADER, controller):
            self._attempt(now)

    def connected(self, peer: BrokerId) -> None:
        """The connection was lost, perhaps with the request: send it again."""
        if self._begun and self._asked == peer:
            self._ask()

    def answered(self, response: ControlledShutdownResponse, now: Millis) -> None:
        if not self._begun:
            return
        if response.error is ErrorCode.NONE and not response.remaining:
            self.leave()
        elif self._asked != NO_LEADER:
            self._asked = NO_LEADER
            self._attempt_at(now + self._ctx.config.controlled_shutdown_retry_backoff_ms)

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._on_left()

    def _attempt(self, now: Millis) -> None:
        config = self._ctx.config
        if self._left:
            return
        if self._attempts == config.controlled_shutdown_max_retries:
            self.leave()
            return
        self._attempts += 1
        self._asked = self._controller
        if self._asked == NO_LEADER:
            self._attempt_at(now + config.controlled_shutdown_retry_backoff_ms)
        else:
            self._ask()
            self._attempt_at(now + config.controller_socket_timeout_ms)

    def _ask(self) -> None:
        request = ControlledShutdownRequest(broker=self._ctx.broker, broker_epoch=self._ctx.broker_epoch)
        self._ctx.send(self._asked, request)

    def _attempt_at(self, at: Millis) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._ctx.set_timer(at, self._attempt)
