"""Topic ids (KIP-516) as the wire has them, 16 bytes, and as everything else has them, in base64."""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache

from tidelog.core.types import NO_TOPIC_ID, TopicId
from tidelog.wire.schema import NO_UUID


@lru_cache(10_000)
def to_wire(topic_id: TopicId) -> bytes:
    try:
        stored = base64.urlsafe_b64decode(topic_id + "==")
    except (binascii.Error, ValueError):
        return NO_UUID
    return stored if len(stored) == len(NO_UUID) else NO_UUID


@lru_cache(10_000)
def from_wire(topic_id: bytes) -> TopicId:
    if topic_id == NO_UUID:
        return NO_TOPIC_ID
    return TopicId(base64.urlsafe_b64encode(topic_id).decode().rstrip("="))
