"""What a broker says of topics before and after it has heard from a controller."""

from tidelog.broker.handlers.metadata import _Absent, _topic
from tidelog.core.metadata import MetadataCache
from tidelog.core.types import BrokerId
from tidelog.wire.errors import ErrorCode


def test_a_broker_that_knows_nothing_yet_does_not_say_that_there_is_no_such_topic():
    """Clients would believe it, and some give up what they have to send."""
    cache = MetadataCache()

    def error(name: str) -> ErrorCode:
        return ErrorCode(_topic(None, cache, name, _Absent.UNKNOWN).error_code)  # type: ignore[arg-type]

    assert error("t") is ErrorCode.LEADER_NOT_AVAILABLE
    assert error("no topic") is ErrorCode.INVALID_TOPIC_EXCEPTION
    cache.live_brokers = {BrokerId(1): 7}
    assert error("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
