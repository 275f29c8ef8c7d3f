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


def wait_for_records(servers: str, topic: str, read: Mapping[int, int], give_up: Callable[[], bool]) -> None:
    """Until each partition has records at or behind `read`. Raises `ClientError`."""
    with Admin(servers) as admin:
        new = _wait(admin, topic, lambda part: (part.high_watermark or 0) > read.get(part.number, 0), give_up)
        if not new:
            raise ClientError(f"{topic}: new records not within {_SECONDS_MAX:g} s")


def expire(servers: str, topic: str, read: Mapping[int, int], give_up: Callable[[], bool]) -> None:
    """Wait until each partition has records at or behind `read`, let everything expire, and return when the
    topic begins behind `read`. Then records live as long as before. Raises `ClientError`."""
    wait_for_records(servers, topic, read, give_up)
    with Admin(servers) as admin:
        admin.alter(topic, {_RETENTION: "1"})
        try:
            gone = _wait(
                admin, topic, lambda part: (part.start_offset or 0) > read.get(part.number, 0), give_up
            )
            if not gone:
                raise ClientError(f"{topic}: expired records not within {_SECONDS_MAX:g} s")
        finally:
            admin.alter(topic, {}, removed=[_RETENTION])


def _wait(
    admin: Admin, topic: str, is_so: Callable[[PartitionView], bool], give_up: Callable[[], bool]
) -> bool:
    """Until it is so of each partition, or the caller gives up; False: it took too long."""
    deadline = time.monotonic() + _SECONDS_MAX
    while not (give_up() or all(is_so(part) for part in _parts(admin, topic))):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _parts(admin: Admin, topic: str) -> list[PartitionView]:
    views = admin.topics([topic])
    admin.add_offsets(views)
    return views[0].partitions
