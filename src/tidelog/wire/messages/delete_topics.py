"""DeleteTopics (20): by name, and since version 6 by name or by id (KIP-516)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import NO_UUID, Int16, Int32, String, Uuid, field, struct


@struct
class DeleteTopicState:
    """Either the name or the id is set."""

    name: String | None = None
    topic_id: Uuid = NO_UUID


@struct
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field([], since=6)
    topic_names: list[String] = field([], until=5)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String | None = field(nullable_since=6)
    topic_id: Uuid = field(NO_UUID, since=6)
    error_code: Int16 = 0
    error_message: String | None = field(None, since=5)


@struct
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    responses: list[DeletableTopicResult]


describes(Api.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, versions=(0, 6), flexible_since=4)
