"""What an error says about a send: certainly not written, or perhaps.

A client library reports the *last* error of a send. What matters is whether any attempt may have been
written, so an error is certain only if it would have met every attempt alike: it is about the record, or the
library refused to take the record at all. Everything else is unknown, and these in particular:

* `NOT_LEADER_OR_FOLLOWER` also comes after the append: a leader is deposed while the record waits for its
  followers. librdkafka then tries again by itself, even if it was told not to retry.
* So `NOT_ENOUGH_REPLICAS`, which is answered before anything is appended, is certain of the last attempt
  only. (The simulator's clients know all their attempts, and call it failed if there was no other.)
* `_MSG_TIMED_OUT` does not tell whether the record was ever sent.
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
"""Errors that are about the record itself, whoever leads and however often it was tried."""


def outcome_of(error_code: int) -> int:
    """The outcome that a delivery report with this code means; 0 is no error. What the client library refuses
    to take in the first place is failed, whatever the code."""
    if not error_code:
        return OK
    return FAILED if error_code in CERTAIN else UNKNOWN
