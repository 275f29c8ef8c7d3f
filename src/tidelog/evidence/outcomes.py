"""What an error means for a send: it has certainly failed, or it may have been written.

A client library reports the *last* error of a send. What matters is whether any attempt may have been
written. An error is certain only if every attempt would have met it: it is about the record, or the library
did not accept the record at all. All others are unknown, in particular:

* `NOT_LEADER_OR_FOLLOWER` is also returned after the append, when a leader is deposed while the record waits
  for followers. Libraries then retry, librdkafka even with retries disabled.
* So `NOT_ENOUGH_REPLICAS`, which is returned before the append, is certain of the last attempt only. (The
  simulator's clients know all their attempts, and report a failure if there was no other.)
* A time-out of the library does not say whether the record was sent.
"""

from __future__ import annotations

from typing import Final

from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN
from tidelog.wire.errors import ErrorCode

CERTAIN: Final = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic can have this name",
    ErrorCode.MESSAGE_TOO_LARGE: "the record is larger than the broker takes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batch is larger than a segment",
    ErrorCode.INVALID_REQUIRED_ACKS: "no broker knows these acks",
    ErrorCode.INVALID_TIMESTAMP: "the record's timestamp is out of bounds",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "the log's format cannot hold the record",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know the codec",
    ErrorCode.INVALID_RECORD: "the broker refuses the record for what it is",
    ErrorCode.POLICY_VIOLATION: "a policy refuses it",
}
"""Errors about the record itself: each attempt on each leader fails alike."""


def outcome_of(error_code: int) -> int:
    """The outcome of a delivery report with this code; 0 is no error. A record that the library does not
    accept has failed, whatever the code."""
    if not error_code:
        return OK
    return FAILED if error_code in CERTAIN else UNKNOWN
