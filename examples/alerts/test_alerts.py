"""A second instance joins while the first one works: every alert is raised, and raised once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from app import Alerts

ClientConfig = Callable[[str], dict[str, Any]]
PATIENCE_SECONDS = 120
MEASUREMENTS = 120


async def measure(config: dict[str, Any], topic: str, first: int) -> None:
    async with AIOKafkaProducer(**config, acks="all") as producer:
        sent = [
            await producer.send(topic, str(200 + number).encode(), key=b"oven")
            for number in range(first, first + MEASUREMENTS)
        ]
        await asyncio.gather(*sent)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_an_instance_joins(
    kafka_cluster: Any,
    kafka_client_config: ClientConfig,
    kafka_topic_factory: Callable[..., str],
    kafka_group: str,
) -> None:
    raised: Counter[str] = Counter()

    async def play() -> None:
        config = kafka_client_config("aiokafka")
        topic = kafka_topic_factory(partitions=4)

        async def note(alert: str) -> None:
            raised[alert] += 1

        async def all_of(count: int) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(raised) < count:
                    await asyncio.sleep(0.01)

        await measure(config, topic, 0)
        first = asyncio.create_task(Alerts(config, topic, kafka_group, note).run())
        await all_of(MEASUREMENTS)
        second = asyncio.create_task(Alerts(config, topic, kafka_group, note).run())
        await asyncio.to_thread(kafka_cluster.wait_assigned, kafka_group, 2)
        await measure(config, topic, MEASUREMENTS)
        await all_of(2 * MEASUREMENTS)
        await ended(first)
        await ended(second)

    asyncio.run(play())
    twice = {alert: times for alert, times in raised.items() if times > 1}
    assert twice == {}
    assert len(raised) == 2 * MEASUREMENTS
