"""aiokafka: asyncio. Each driver call runs an event loop of its own to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from tests.clients.drivers.base import Driver, Incoming, Outgoing, Reader, Refused


def refusal(error: KafkaError) -> Refused:
    return Refused(int(error.errno), repr(error))


class AioKafkaReader(Reader):
    """The loop runs only during a poll, as a consumer's does in a program with one task."""

    def __init__(self, settings: dict[str, Any], topic: str, offsets: Mapping[int, int]) -> None:
        self._loop = asyncio.Runner()
        self._consumer = self._loop.run(self._start(settings, topic, offsets))

    async def _start(
        self, settings: dict[str, Any], topic: str, offsets: Mapping[int, int]
    ) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**settings)
        await consumer.start()
        consumer.assign([TopicPartition(topic, number) for number in offsets])
        for number, first in offsets.items():
            consumer.seek(TopicPartition(topic, number), first)
        return consumer

    def poll(self, seconds: float) -> list[Incoming]:
        try:
            polled = self._loop.run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        except KafkaError as error:
            raise refusal(error) from None
        return [
            Incoming(each.partition, each.offset, each.value, each.key, tuple(each.headers), each.timestamp)
            for records in polled.values()
            for each in records
        ]

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.close()


class AioKafka(Driver):
    name = "aiokafka"

    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        acks: int = -1,
        codec: str = "none",
        idempotent: bool = False,
        linger_ms: int = 0,
        request_bytes_max: int = 1_000_000,
    ) -> list[int | None]:
        async def send() -> list[int | None]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap_servers,
                acks=acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=linger_ms,
                max_request_size=request_bytes_max,
                max_batch_size=max(16_384, request_bytes_max),
                request_timeout_ms=30_000,
            )
            await producer.start()
            try:
                waiting = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                told = await asyncio.gather(*waiting)
                return [None if acks == 0 else each.offset for each in told]
            except KafkaError as error:
                raise refusal(error) from None
            finally:
                await producer.stop()

        return asyncio.run(send())

    def reader(
        self,
        topic: str,
        offsets: Mapping[int, int],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        reset: str = "none",
    ) -> Reader:
        settings = {
            **self._consumer_settings(),
            "fetch_max_wait_ms": wait_ms_max,
            "request_timeout_ms": 60_000,
            "fetch_min_bytes": bytes_min,
            "auto_offset_reset": reset,
        }
        return AioKafkaReader(settings, topic, offsets)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        where = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> tuple[int, int]:
            first = await consumer.beginning_offsets([where])
            return first[where], (await consumer.end_offsets([where]))[where]

        return self._asked(ask)

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> int | None:
            found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
            return None if found is None else int(found.offset)

        return self._asked(ask)

    def _asked(self, question: Any) -> Any:
        async def ask() -> Any:
            consumer = AIOKafkaConsumer(**self._consumer_settings())
            await consumer.start()
            try:
                return await question(consumer)
            except KafkaError as error:
                raise refusal(error) from None
            finally:
                await consumer.stop()

        return asyncio.run(ask())

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": None,
            "enable_auto_commit": False,
        }
