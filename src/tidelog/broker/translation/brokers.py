"""Messages between brokers: core messages to Kafka requests and back, by one table of all of them."""

from __future__ import annotations

from typing import Any

from tidelog.broker.translation import from_controller, replication, to_controller
from tidelog.broker.translation.exchange import AnyExchange
from tidelog.core.messages import Message
from tidelog.wire.errors import ProtocolError

EXCHANGES: tuple[AnyExchange, ...] = (
    *replication.EXCHANGES,
    *from_controller.EXCHANGES,
    *to_controller.EXCHANGES,
)
_EXCHANGE_OF = {exchange.asked: exchange for exchange in EXCHANGES}


def request_to_wire(message: Message) -> tuple[int, int, Any]:
    """(API, version, body) of a request to another broker."""
    exchange = _EXCHANGE_OF[type(message)]
    return exchange.api, exchange.version, exchange.to_wire(message)


def response_from_wire(asked: Message, body: Any) -> Message:
    """The answer to a request to another broker."""
    try:
        return _EXCHANGE_OF[type(asked)].answer_from_wire(asked, body)
    except (IndexError, ValueError):
        raise ProtocolError(f"an answer that does not fit its {type(asked).__name__}") from None
