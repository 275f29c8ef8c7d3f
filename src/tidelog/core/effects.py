"""What a broker core asks of the world around it.

Every input makes the core append effects to one list, in the order in which they must be carried out:
messages to send, replies to deliver, keeper calls to make, wake-ups to arrange, and *events*
(``tidelog.core.events``), which ask for nothing and only say what happened.

A world for which the list is a detour (the simulator, which would make and unpack millions of effects) brings
an ``Outbox`` of its own and is told each request at once. Events, and that the process may leave, are on the
list all the same: they speak of the state after the step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.core.keeper_port import Operation
from tidelog.core.messages import Message
from tidelog.core.types import BrokerId, Millis

ReplyTo = Hashable
"""An opaque token for whoever sent a request: the world made it, the world understands it."""


@dataclass(slots=True)
class Send:
    """Send a request to another broker. If the connection breaks, the core is told ``connected`` when it is
    back and sends again what still matters."""

    to: BrokerId
    message: Message


@dataclass(slots=True)
class Reply:
    to: ReplyTo
    message: Message


@dataclass(slots=True)
class KeeperCall:
    """Calls of one broker are executed in the order in which they were made."""

    call: int
    operation: Operation


@dataclass(slots=True)
class WakeAt:
    """Call ``wake`` at this time or later. An earlier request for a wake-up stays valid."""

    at: Millis


@dataclass(slots=True)
class Stopped:
    """Controlled shutdown is finished: leadership has moved, the process may leave."""


class Outbox(Protocol):
    """Takes what a core asks for, in order. Nothing may come back to the core before its step is over."""

    def send(self, to: BrokerId, message: Message) -> None: ...
    def reply(self, to: ReplyTo, message: Message) -> None: ...
    def call_keeper(self, call: int, operation: Operation) -> None: ...
    def wake_at(self, at: Millis) -> None: ...


class EffectList:
    """The usual outbox: everything goes onto the list of effects."""

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
