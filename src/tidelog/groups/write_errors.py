"""Error codes for clients whose request caused a failed write to the log.

A replica that no longer leads is not the coordinator; one that lacks in-sync replicas is not available.
Repeating the request does not help if the record itself was refused.
"""

from __future__ import annotations

from tidelog.wire.errors import ErrorCode

_UNAVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_DEPOSED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


def of_group(error: ErrorCode) -> ErrorCode:
    """The error of a join or a sync. A client may repeat those, even if the first attempt was written."""
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.REQUEST_TIMED_OUT else _common(error)


def of_commit(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else _common(error)


def _common(error: ErrorCode) -> ErrorCode:
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NOT_COORDINATOR if error in _DEPOSED else error
