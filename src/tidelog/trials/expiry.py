"""Retention that deletes what a reader has not read yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.kafka_client.admin import Admin, PartitionView
from tidelog.kafka_client.blocking import ClientError

_RETENTION: Final = "retention.ms"
_POLL_SECONDS: Final = 0.05
_SECONDS_MAX: Final = 60.0


def expire(servers: str, topic: str, read: Mapping[int, int], give_up: Callable[[], bool]) -> None:
    """Wait until each partition has records at or behind `read`, let everything expire, and return when the
    topic begins behind `read`. Then records live as long as before. Raises `ClientError`."""
    with Admin(servers) as admin:

        def wait(is_so: Callable[[PartitionView], bool], what: str) -> None:
            deadline = time.monotonic() + _SECONDS_MAX
            while not all(is_so(part) for part in _parts(admin, topic)):
                if time.monotonic() > deadline:
                    raise ClientError(f"{topic}: {what} not within {_SECONDS_MAX:g} s")
                if give_up():
                    return
                time.sleep(_POLL_SECONDS)

        wait(lambda part: (part.high_watermark or 0) > read.get(part.number, 0), "new records")
        admin.alter(topic, {_RETENTION: "1"})
        try:
            wait(lambda part: (part.start_offset or 0) > read.get(part.number, 0), "expired records")
        finally:
            admin.alter(topic, {}, removed=[_RETENTION])


def _parts(admin: Admin, topic: str) -> list[PartitionView]:
    views = admin.topics([topic])
    admin.add_offsets(views)
    return views[0].partitions
