"""Effects: what the core asks its driver (the simulator or the broker process) to do.

For every input the core appends effects to one list, in the order of execution: messages to send, replies to
deliver, calls to the keeper, wake-ups, and *events* (``tidelog.core.events``), which only report what
happened.

The simulator, which would create and unpack millions of effects, brings its own ``Outbox`` and is called
directly. Events and ``Stopped`` are always on the list: they describe the state after the step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.core.keeper_port import Operation
from tidelog.core.messages import Message
from tidelog.core.types import BrokerId, Millis

ReplyTo = Hashable
"""An opaque token for the sender of a request. Only the driver, which created it, knows its type."""


@dataclass(slots=True)
class Send:
    """Send a request to another broker. If the connection breaks, the driver calls ``connected`` after the
    reconnect, and the core repeats what still matters."""

    to: BrokerId
    message: Message


@dataclass(slots=True)
class Reply:
    to: ReplyTo
    message: Message


@dataclass(slots=True)
class KeeperCall:
    """The keeper executes the calls of one broker in order."""

    call: int
    operation: Operation


@dataclass(slots=True)
class WakeAt:
    """The driver must call ``wake`` at this time or later. Earlier requests stay valid."""

    at: Millis


@dataclass(slots=True)
class Stopped:
    """The controlled shutdown is finished: the process may stop."""


class Outbox(Protocol):
    """Receives the effects of a core, in order. It must not call the core before the current step is over."""

    def send(self, to: BrokerId, message: Message) -> None: ...
    def reply(self, to: ReplyTo, message: Message) -> None: ...
    def call_keeper(self, call: int, operation: Operation) -> None: ...
    def wake_at(self, at: Millis) -> None: ...


class EffectList:
    """The default outbox: appends to the list of effects."""

    __slots__ = ("_append",)

    def __init__(self, effects: list[Any]) -> None:
        self._append = effects.append

    def send(self, to: BrokerId, message: Message) -> None:
        self._append(Send(to, message))

    def reply(self, to: ReplyTo, message: Message) -> None:
        self._append(Reply(to, message))

    def call_keeper(self, call: int, operation: Operation) -> None:
        self._append(KeeperCall(call, operation))

    def wake_at(self, at: Millis) -> None:
        self._append(WakeAt(at))
