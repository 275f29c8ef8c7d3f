"""Topics that clients ask for and that do not exist: the controller is asked to create them.

Clients ask for a topic until it is there. What the controller was asked and has not answered is remembered
here: so it is asked once, not as often as clients ask, and for a bounded number of topics at a time, though a
request for metadata may name a hundred thousand. When an answer does not come, it is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.core.messages import CreateTopicRequest, CreateTopicResponse
from tidelog.core.types import Millis
from tidelog.wire.errors import ErrorCode

log = logging.getLogger("tidelog.node")

UNANSWERED_MAX = 1000
REFUSED_MAX = 1000
ASKED_AGAIN_AFTER_MS: Millis = 5_000
_CREATED_SOON = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER)


class WantedTopics:
    def __init__(self, send: Callable[[CreateTopicRequest], bool]) -> None:
        """``send`` says whether there is a controller to send to."""
        self._send = send
        self._unanswered: dict[str, Millis] = {}
        """When the controller was asked, oldest first."""
        self._refused: dict[str, ErrorCode] = {}

    def want(self, request: CreateTopicRequest, now: Millis) -> ErrorCode:
        """What to tell the client: to ask again, or why the controller refused the last time."""
        topic, unanswered = request.topic, self._unanswered
        while unanswered and now - next(iter(unanswered.values())) >= ASKED_AGAIN_AFTER_MS:
            del unanswered[next(iter(unanswered))]
        if topic not in unanswered and len(unanswered) < UNANSWERED_MAX and self._send(request):
            unanswered[topic] = now
        return self._refused.get(topic, ErrorCode.LEADER_NOT_AVAILABLE)

    def answered(self, response: CreateTopicResponse) -> None:
        """Why a topic cannot be is worth one line, not one each time that a client asks."""
        topic, error = response.topic, response.error
        self._unanswered.pop(topic, None)
        if error in _CREATED_SOON:
            self._refused.pop(topic, None)
        elif self._refused.get(topic) != error:
            if len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            self._refused[topic] = error
            log.warning("cannot create topic %s for a client: %s", topic, response.message or error.name)
