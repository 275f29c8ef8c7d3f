"""What one broker says when it is asked: through Kafka's Metadata, and by its metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.core.types import TopicPartition
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataResponse

_METRICS_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 0.005
"""Between questions at the start of a cluster, which takes some hundredths of a second."""
_COORDINATOR_SECONDS: Final = 10.0
_ANY_GROUP: Final = "any"

Address = tuple[str, int]


def metadata(at: Address, topics: Sequence[str] | None) -> MetadataResponse | None:
    """What one broker knows; None if it does not answer."""
    try:
        with Client(*at) as client:
            return client.metadata(topics)
    except ClientError:
        return None


def known_brokers(at: Address) -> set[int]:
    """The brokers that one of them knows of; none while it knows no controller, or does not answer."""
    answer = metadata(at, [])
    known = {each.node_id for each in answer.brokers} if answer is not None else set()
    return known if answer is not None and answer.controller_id in known else set()


def recovery_points(host: str, metrics_port: int) -> dict[TopicPartition, int]:
    """How far each log of a broker is synced, as it says itself; empty where it does not answer."""
    from urllib.request import urlopen  # here, because most clusters never need them

    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urlopen(f"http://{host}:{metrics_port}/metrics", timeout=_METRICS_SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        TopicPartition(sample.labels["topic"], int(sample.labels["partition"])): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tidelog_partition_recovery_point"
    }


async def create_offsets_topic(brokers: Mapping[int, Address]) -> None:
    """Ask for a coordinator until there is one, and every broker knows it. Raises `ClusterError`."""
    await asyncio.gather(*(asyncio.to_thread(_find_coordinator, at) for at in brokers.values()))


def _find_coordinator(at: Address) -> None:
    deadline = time.monotonic() + _COORDINATOR_SECONDS
    request = FindCoordinatorRequest(key=_ANY_GROUP, coordinator_keys=[_ANY_GROUP])
    try:
        with Client(*at) as client:
            while True:
                answer = client.ask(Api.FIND_COORDINATOR, request)
                found = [each.error_code for each in answer.coordinators] or [answer.error_code]
                if not any(found):
                    return
                if time.monotonic() > deadline:
                    raise ClusterError(f"groups have no coordinator: {ErrorCode(found[0]).name}")
                time.sleep(_SOON_SECONDS)
    except ClientError as error:
        raise ClusterError(str(error)) from None
