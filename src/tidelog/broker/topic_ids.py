"""Where topic ids (KIP-516) come from."""

from __future__ import annotations

import uuid

from tidelog.core.topic_ids import from_wire
from tidelog.core.types import ControllerEpoch, TopicId


def random_topic_id(_controller_epoch: ControllerEpoch, _number: int) -> TopicId:
    """As in Kafka, no id begins with a dash: tools would take it for an option."""
    while True:
        topic_id = from_wire(uuid.uuid4().bytes)
        if not topic_id.startswith("-"):
            return topic_id
