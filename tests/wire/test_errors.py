"""The error codes are Kafka's: number, name and whether a client retries."""

import pytest

from tidelog.wire.errors import RETRIABLE, ErrorCode

# What producers, consumers, followers and the controller act on: (number, name, retriable).
REPLICATION_CODES = [
    (-1, "UNKNOWN_SERVER_ERROR", False),
    (0, "NONE", False),
    (1, "OFFSET_OUT_OF_RANGE", False),
    (2, "CORRUPT_MESSAGE", True),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
    (5, "LEADER_NOT_AVAILABLE", True),
    (6, "NOT_LEADER_OR_FOLLOWER", True),
    (7, "REQUEST_TIMED_OUT", True),
    (9, "REPLICA_NOT_AVAILABLE", True),
    (10, "MESSAGE_TOO_LARGE", False),
    (11, "STALE_CONTROLLER_EPOCH", False),
    (13, "NETWORK_EXCEPTION", True),
    (19, "NOT_ENOUGH_REPLICAS", True),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True),
    (21, "INVALID_REQUIRED_ACKS", False),
    (35, "UNSUPPORTED_VERSION", False),
    (41, "NOT_CONTROLLER", True),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
    (46, "DUPLICATE_SEQUENCE_NUMBER", False),
    (47, "INVALID_PRODUCER_EPOCH", False),
    (56, "KAFKA_STORAGE_ERROR", True),
    (59, "UNKNOWN_PRODUCER_ID", False),
    (70, "FETCH_SESSION_ID_NOT_FOUND", True),
    (71, "INVALID_FETCH_SESSION_EPOCH", True),
    (74, "FENCED_LEADER_EPOCH", True),
    (75, "UNKNOWN_LEADER_EPOCH", True),
    (77, "STALE_BROKER_EPOCH", False),
    (78, "OFFSET_NOT_AVAILABLE", True),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", True),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True),
    (84, "ELECTION_NOT_NEEDED", True),
    (87, "INVALID_RECORD", False),
    (90, "PRODUCER_FENCED", False),
    (95, "INVALID_UPDATE_VERSION", False),
]


@pytest.mark.parametrize(("number", "name", "retriable"), REPLICATION_CODES)
def test_replication_codes_are_kafkas(number: int, name: str, retriable: bool) -> None:
    """A code that replication uses has Kafka's number, Kafka's name and Kafka's retry class."""
    code = ErrorCode(number)
    assert code.name == name
    assert code.retriable is retriable


def test_codes_have_no_gap_and_no_alias() -> None:
    """Kafka 2.7 defines every number from -1 to 96 once; of later codes only a few are here."""
    later = [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INELIGIBLE_REPLICA,
    ]
    assert [int(code) for code in ErrorCode] == [*range(-1, 97), *later]
    assert len(ErrorCode.__members__) == len(ErrorCode)


def test_success_and_the_unknown_are_not_retried() -> None:
    """Retrying a success would duplicate it, and an unknown failure says nothing about a second attempt."""
    assert len(RETRIABLE) == 28
    assert RETRIABLE.isdisjoint({ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR})
