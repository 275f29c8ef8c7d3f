"""Raises alerts: reads measurements from Kafka and raises one alert for each that is too high."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

Raise = Callable[[str], Awaitable[None]]
LIMIT = 100
COMMIT_EVERY = 50


class Alerts(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, config: dict[str, Any], topic: str, group: str, raise_alert: Raise) -> None:
        self._raise = raise_alert
        self._done: dict[TopicPartition, int] = {}
        """The offset to go on with, of what was handled and not committed."""
        self._handling = asyncio.Lock()
        self._consumer = AIOKafkaConsumer(
            **config, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        self._topic = topic

    async def run(self) -> None:
        """Until it is cancelled."""
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        try:
            async for record in self._consumer:
                async with self._handling:
                    at = TopicPartition(record.topic, record.partition)
                    if at not in self._consumer.assignment():
                        continue
                    if int(record.value) > LIMIT:
                        await self._raise(f"{record.key.decode()}: {record.value.decode()}")
                    self._done[at] = record.offset + 1
                    if len(self._done) and record.offset % COMMIT_EVERY == 0:
                        await self._commit()
        finally:
            await self._commit()
            await self._consumer.stop()

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Others go on where this one ended: what it has handled must be committed before."""
        async with self._handling:
            await self._commit()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        pass

    async def _commit(self) -> None:
        done, self._done = self._done, {}
        if done:
            await self._consumer.commit(done)
