"""DeleteTopics (20), by name; later versions than 5 know ids too."""

from __future__ import annotations

from tidelog.wire.api_keys import Api
from tidelog.wire.registry import register
from tidelog.wire.schema import Int16, Int32, String, field, struct


@struct
class DeleteTopicsRequest:
    topic_names: list[String]
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = field(None, since=5)


@struct
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    responses: list[DeletableTopicResult]


register(Api.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, versions=(0, 5), flexible_since=4)
