"""Missing topics that clients ask for: the broker asks the controller to create them.

Clients ask for a topic until it exists. This module remembers unanswered requests to the controller, so that
each topic is requested once and only a bounded number at a time, though a metadata request may name a hundred
thousand. Without an answer it asks again after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.core.topic_messages import CreateTopicRequest, CreateTopicResponse
from tidelog.core.types import Millis
from tidelog.wire.errors import ErrorCode

log = logging.getLogger("tidelog.node")

UNANSWERED_MAX = 1000
REFUSED_MAX = 1000
ASKED_AGAIN_AFTER_MS: Millis = 5_000
_CREATED_SOON = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER)


class WantedTopics:
    def __init__(self, send: Callable[[CreateTopicRequest], bool]) -> None:
        """``send`` returns whether there is a controller."""
        self._send = send
        self._unanswered: dict[str, Millis] = {}
        """The time of each request to the controller, oldest first."""
        self._refused: dict[str, ErrorCode] = {}

    def want(self, request: CreateTopicRequest, now: Millis) -> ErrorCode:
        """The error for the client: to ask again, or why the controller refused the last time."""
        topic, unanswered = request.topic, self._unanswered
        while unanswered and now - next(iter(unanswered.values())) >= ASKED_AGAIN_AFTER_MS:
            del unanswered[next(iter(unanswered))]
        if topic not in unanswered and len(unanswered) < UNANSWERED_MAX and self._send(request):
            unanswered[topic] = now
        return self._refused.get(topic, ErrorCode.LEADER_NOT_AVAILABLE)

    def answered(self, response: CreateTopicResponse) -> None:
        """Log once why a topic cannot be created, not at every request of a client."""
        topic, error = response.topic, response.error
        self._unanswered.pop(topic, None)
        if error in _CREATED_SOON:
            self._refused.pop(topic, None)
        elif self._refused.get(topic) != error:
            if len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            self._refused[topic] = error
            log.warning("cannot create topic %s for a client: %s", topic, response.message or error.name)
