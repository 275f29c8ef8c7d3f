"""kafka-python: pure Python, threads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.drivers.base import Driver, Incoming, Outgoing, Reader, Refused

with warnings.catch_warnings():
    # Its schemas are read through a function that Python 3.11 deprecates; it works all the same.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
    from kafka.errors import KafkaError  # type: ignore[import-untyped]

__all__ = ("KafkaConsumer", "KafkaProducer", "KafkaPython")


def refusal(error: KafkaError) -> Refused:
    return Refused(int(error.errno), repr(error))


class KafkaPythonReader(Reader):
    def __init__(self, consumer: KafkaConsumer, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer = consumer
        consumer.assign([TopicPartition(topic, number) for number in offsets])
        for number, first in offsets.items():
            consumer.seek(TopicPartition(topic, number), first)

    def poll(self, seconds: float) -> list[Incoming]:
        try:
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        except KafkaError as error:
            raise refusal(error) from None
        return [
            Incoming(each.partition, each.offset, each.value, each.key, tuple(each.headers), each.timestamp)
            for records in polled.values()
            for each in records
        ]

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Driver):
    name = "kafka-python"
    sends_null_headers = False

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
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            acks=acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=linger_ms,
            max_request_size=request_bytes_max,
            max_in_flight_requests_per_connection=5,
            delivery_timeout_ms=31_000 + linger_ms,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(60)
            offsets = [each.get(60).offset for each in sent]
        except KafkaError as error:
            raise refusal(error) from None
        finally:
            producer.close(timeout=10)
        return [None if acks == 0 else offset for offset in offsets]

    def reader(
        self,
        topic: str,
        offsets: Mapping[int, int],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        reset: str = "none",
    ) -> Reader:
        consumer = self._consumer(
            fetch_max_wait_ms=wait_ms_max,
            request_timeout_ms=60_000,
            fetch_min_bytes=bytes_min,
            auto_offset_reset=reset,
        )
        return KafkaPythonReader(consumer, topic, offsets)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
        except KafkaError as error:
            raise refusal(error) from None
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
        except KafkaError as error:
            raise refusal(error) from None
        finally:
            consumer.close()
        return None if found is None else int(found.offset)

    def _consumer(self, **settings: Any) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, group_id=None, enable_auto_commit=False, **settings
        )
