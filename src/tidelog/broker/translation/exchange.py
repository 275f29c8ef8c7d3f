"""One row of the table of requests between brokers: a core request, its Kafka request, and the answers.

Responses of the core repeat parts of the request, which the wire does not; hence ``answer_from_wire`` gets
what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.core.messages import Message
from tidelog.core.types import TopicPartition
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode

Asked = TypeVar("Asked", bound=Message)
Request = TypeVar("Request")
Response = TypeVar("Response")
Part = TypeVar("Part")

_KNOWN_CODES = frozenset(map(int, ErrorCode))


class Exchange(NamedTuple, Generic[Asked, Request, Response]):
    """``version`` is the one that this broker sends. Type checking holds both functions against ``asked``."""

    asked: type[Asked]
    api: Api
    version: int
    to_wire: Callable[[Asked], Request]
    answer_from_wire: Callable[[Asked, Response], Message]


AnyExchange = Exchange[Any, Any, Any]


def error_of(code: int) -> ErrorCode:
    """The error code; an unknown number of a later release counts as UNKNOWN_SERVER_ERROR."""
    return ErrorCode(code) if code in _KNOWN_CODES else ErrorCode.UNKNOWN_SERVER_ERROR


def by_topic(partitions: Iterable[tuple[TopicPartition, Part]]) -> dict[str, list[Part]]:
    """Group per-partition parts under their topics, in order of appearance."""
    topics: dict[str, list[Part]] = {}
    for tp, part in partitions:
        topics.setdefault(tp.topic, []).append(part)
    return topics
