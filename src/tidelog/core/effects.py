"""What a broker core asks of the world around it.

Every input makes the core append effects to one list, in the order in which they must be carried out:
messages to send, replies to deliver, keeper calls to make, wake-ups to arrange, and *events*
(``tidelog.core.events``), which ask for nothing and only say what happened.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tidelog.core.coordination import Operation
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
