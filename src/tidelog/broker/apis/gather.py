"""Collects the core's answers to the parts of one request and calls back after the last one.

Each question carries the function that takes its answer.

Some questions depend on the keeper, and wait while it is not connected. A request with such parts has a
deadline, the client's own or ``KEEPER_SECONDS_MAX``: parts without an answer by then get REQUEST_TIMED_OUT,
as in Kafka, which means that the change may happen later or not at all. Later answers of the core are
ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.core import messages as core
from tidelog.core import topic_messages
from tidelog.core.messages import Message
from tidelog.core.producer_ids import TRY_AGAIN
from tidelog.core.types import Millis
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node

KEEPER_SECONDS_MAX = 10.0
"""Enough time to reconnect to another member of ZooKeeper; clients wait three times as long."""


class Gather:
    __slots__ = ("_deadline", "_finish", "_missing", "_seconds_max", "_unanswered")

    def __init__(self, finish: Callable[[], None], *, seconds_max: float = 0.0) -> None:
        """``seconds_max``: the deadline of the parts; 0: none."""
        self._finish = finish
        self._missing = 1  # counts the asking itself, so that nothing finishes before all parts are asked
        self._seconds_max = seconds_max
        self._deadline: asyncio.TimerHandle | None = None
        self._unanswered: dict[_Part, Message] = {}

    def ask(self, node: Node, question: Message, fill: Callable[[Any], None]) -> None:
        part = self._expect(fill)
        if self._seconds_max:
            self._unanswered[part] = question
            if self._deadline is None:
                loop = asyncio.get_running_loop()
                self._deadline = loop.call_later(self._seconds_max, self._late, node)
        node.ask(part, question)

    def expect(self, fill: Callable[[Any], None]) -> Callable[[Any], None]:
        """Expect one more answer. The caller passes it to the returned function."""
        return self._expect(fill).deliver

    def _expect(self, fill: Callable[[Any], None]) -> _Part:
        self._missing += 1
        return _Part(self, fill)

    def asked_all(self) -> None:
        self._arrived()

    def answered(self, part: _Part) -> None:
        self._unanswered.pop(part, None)
        self._arrived()

    def _arrived(self) -> None:
        self._missing -= 1
        if not self._missing:
            if self._deadline is not None:
                self._deadline.cancel()
            self._finish()

    def _late(self, node: Node) -> None:
        for part, question in list(self._unanswered.items()):
            part.deliver(_TOO_LATE[type(question)](question))
        node.settle()


class _Part:
    """The receiver of one answer. Only the first one counts."""

    __slots__ = ("_fill", "_gather")

    def __init__(self, gather: Gather, fill: Callable[[Any], None]) -> None:
        self._gather: Gather | None = gather
        self._fill = fill

    def deliver(self, message: Any) -> None:
        gather, self._gather = self._gather, None
        if gather is not None:
            self._fill(message)
            self._fill = _ignore  # the core may keep this object as long as the keeper is not connected
            gather.answered(self)


def ask(node: Node, question: Message, respond: Callable[[Any], None], *, seconds_max: float = 0.0) -> None:
    """Ask a single question; ``respond`` is called with the answer."""
    gather = Gather(lambda: None, seconds_max=seconds_max)
    gather.ask(node, question, respond)
    gather.asked_all()


def deadline_seconds(timeout_ms: Millis = 0) -> float:
    """The deadline of a request in seconds: the client's own, or the default."""
    return timeout_ms / 1000 if timeout_ms > 0 else KEEPER_SECONDS_MAX


def _ignore(_message: Any) -> None:
    pass


_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
_KEEPER_AWAY = "The keeper does not answer. The change may still be made when it does."

_TOO_LATE: dict[type, Callable[[Any], Message]] = {
    topic_messages.CreateTopicRequest: lambda q: topic_messages.CreateTopicResponse(
        topic=q.topic, error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    topic_messages.CreatePartitionsRequest: lambda q: topic_messages.CreatePartitionsResponse(
        topic=q.topic, error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    topic_messages.DeleteTopicRequest: lambda q: topic_messages.DeleteTopicResponse(
        topic=q.topic, error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    topic_messages.AlterReassignmentRequest: lambda q: topic_messages.AlterReassignmentResponse(
        tp=q.tp, error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    topic_messages.ListReassignmentsRequest: lambda _: topic_messages.ListReassignmentsResponse(
        error=_TIMED_OUT
    ),
    core.ElectLeadersRequest: lambda q: core.ElectLeadersResponse(tp=q.tp, error=_TIMED_OUT),
    topic_messages.AlterTopicConfigRequest: lambda q: topic_messages.AlterTopicConfigResponse(
        topic=q.topic, error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    topic_messages.DescribeTopicConfigRequest: lambda q: topic_messages.DescribeTopicConfigResponse(
        topic=q.topic, error=_TIMED_OUT
    ),
    topic_messages.AlterBrokerConfigRequest: lambda _: topic_messages.AlterBrokerConfigResponse(
        error=_TIMED_OUT, message=_KEEPER_AWAY
    ),
    core.InitProducerIdRequest: lambda _: core.InitProducerIdResponse(error=TRY_AGAIN),
}
"""The answers after the deadline. Only these questions may have a deadline."""
