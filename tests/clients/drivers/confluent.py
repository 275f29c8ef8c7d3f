"""confluent-kafka: librdkafka, the C client that many languages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.clients.drivers.base import Driver, Incoming, Outgoing, Reader, Refused

TIMESTAMP_MISSING = 0
OFFSET_END = -1


def quiet(bootstrap_servers: str) -> dict[str, Any]:
    """Errors arrive as errors; the client's log lines would only blur what pytest shows."""
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


def refusal(error: KafkaError | KafkaException) -> Refused:
    reported: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return Refused(reported.code(), reported.str())


class ConfluentReader(Reader):
    def __init__(self, settings: dict[str, Any], topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, first) for number, first in offsets.items()])

    def poll(self, seconds: float) -> list[Incoming]:
        message = self._consumer.poll(seconds)
        if message is None:
            return []
        return [_incoming(each) for each in (message, *self._consumer.consume(1000, 0))]

    def close(self) -> None:
        self._consumer.close()


class Confluent(Driver):
    name = "confluent"

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
        producer = Producer(
            {
                **quiet(self.bootstrap_servers),
                "acks": acks,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": linger_ms,
                "message.max.bytes": request_bytes_max,
                "max.in.flight.requests.per.connection": 5,
                "message.timeout.ms": 30_000,
            }
        )
        offsets: dict[int, int | None] = {}
        errors: list[KafkaError] = []

        def delivered(number: int, error: KafkaError | None, message: Message) -> None:
            if error:
                errors.append(error)
            offset = message.offset()
            offsets[number] = offset if offset is not None and offset >= 0 else None

        for number, record in enumerate(records):
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp_ms or TIMESTAMP_MISSING,
                    headers=list(record.headers),
                    on_delivery=partial(delivered, number),
                )
            except KafkaException as error:
                raise refusal(error) from None
        assert producer.flush(60) == 0
        if errors:
            raise refusal(errors[0])
        return [offsets[number] for number in range(len(records))]

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
            "fetch.wait.max.ms": wait_ms_max,
            "socket.timeout.ms": 60_000,
            "fetch.min.bytes": bytes_min,
            "auto.offset.reset": "error" if reset == "none" else reset,
        }
        return ConfluentReader({**self._consumer_settings(), **settings}, topic, offsets)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = Consumer(self._consumer_settings())
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_SECONDS)
        except KafkaException as error:
            raise refusal(error) from None
        finally:
            consumer.close()
        assert found is not None
        return found

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = Consumer(self._consumer_settings())
        try:
            found = consumer.offsets_for_times(
                [TopicPartition(topic, partition, timestamp_ms)], timeout=PATIENCE_SECONDS
            )[0]
        except KafkaException as error:
            raise refusal(error) from None
        finally:
            consumer.close()
        return None if found.offset == OFFSET_END else found.offset

    def _consumer_settings(self) -> dict[str, Any]:
        # The client wants a group's name even where no group is used.
        return {**quiet(self.bootstrap_servers), "group.id": "unused", "enable.auto.commit": False}


def _incoming(message: Message) -> Incoming:
    if error := message.error():
        raise refusal(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or []
    return Incoming(
        partition, offset, message.value(), message.key(), tuple(map(tuple, headers)), message.timestamp()[1]
    )
