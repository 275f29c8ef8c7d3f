"""Consumers of three Python libraries, each behind a proxy that records what the application reads."""

from __future__ import annotations

from typing import Any, Final

from tidelog.errors import Refusal
from tidelog.ledger.proxy import KNOWN, Closing, ClosingLater, Library, Proxy, class_names
from tidelog.ledger.reads import Read, ReadRecorder

_CONSUMERS: Final = {
    "cimpl.Consumer": Library.CONFLUENT,
    "confluent_kafka.Consumer": Library.CONFLUENT,
    "kafka.KafkaConsumer": Library.KAFKA_PYTHON,
    "aiokafka.AIOKafkaConsumer": Library.AIOKAFKA,
}
_DESERIALIZING: Final = "confluent_kafka.DeserializingConsumer"


def check_consumer(consumer: Any) -> Library:
    """Whose consumer it is. Raises `Refusal`, also for one that does not return bytes: the ledger compares
    what was sent with what was read."""
    names = class_names(consumer)
    library = next((_CONSUMERS[name] for name in names if name in _CONSUMERS), None)
    if library is None:
        raise Refusal(
            f"watch takes a consumer of {KNOWN}, not a {type(consumer).__module__}.{type(consumer).__name__}"
        )
    config = getattr(consumer, "config", None)
    made = [
        config.get(name) if isinstance(config, dict) else getattr(consumer, f"_{name}", None)
        for name in ("key_deserializer", "value_deserializer")
    ]
    if _DESERIALIZING in names or any(made):
        raise Refusal("watch takes a consumer that returns bytes: deserialize what it returns")
    return library


def watched(consumer: Any, recorder: ReadRecorder) -> Any:
    """The proxy of a consumer. Raises `Refusal`."""
    proxies = {
        Library.CONFLUENT: Confluent,
        Library.KAFKA_PYTHON: KafkaPython,
        Library.AIOKAFKA: Aiokafka,
    }
    return proxies[check_consumer(consumer)](consumer, recorder)


class Consumer(Proxy):
    def __init__(self, consumer: Any, recorder: ReadRecorder) -> None:
        super().__init__(consumer)
        self._recorder = recorder


class Confluent(Consumer, Closing):
    def poll(self, *args: Any, **more: Any) -> Any:
        message = self._wrapped.poll(*args, **more)
        if message is not None and message.error() is None:
            self._recorder.record((_of_message(message),))
        return message

    def consume(self, *args: Any, **more: Any) -> Any:
        messages = self._wrapped.consume(*args, **more)
        self._recorder.record(_of_message(each) for each in messages if each.error() is None)
        return messages


def _of_message(message: Any) -> Read:
    epoch = message.leader_epoch()
    kind, time_ms = message.timestamp()
    return Read(
        message.topic(),
        message.partition(),
        message.offset(),
        -1 if epoch is None else epoch,
        time_ms if kind else -1,
        message.key(),
        message.value(),
        message.headers(),
    )


class KafkaPython(Consumer, Closing):
    def poll(self, *args: Any, **more: Any) -> Any:
        found = self._wrapped.poll(*args, **more)
        self._recorder.record(_of_record(each) for records in found.values() for each in records)
        return found

    def __iter__(self) -> KafkaPython:
        return self

    def __next__(self) -> Any:
        record = next(self._wrapped)
        self._recorder.record((_of_record(record),))
        return record


class Aiokafka(Consumer, ClosingLater):
    async def getone(self, *args: Any, **more: Any) -> Any:
        record = await self._wrapped.getone(*args, **more)
        self._recorder.record((_of_record(record),))
        return record

    async def getmany(self, *args: Any, **more: Any) -> Any:
        found = await self._wrapped.getmany(*args, **more)
        self._recorder.record(_of_record(each) for records in found.values() for each in records)
        return found

    def __aiter__(self) -> Aiokafka:
        self._wrapped.__aiter__()
        return self

    async def __anext__(self) -> Any:
        record = await self._wrapped.__anext__()
        self._recorder.record((_of_record(record),))
        return record


def _of_record(record: Any) -> Read:
    """kafka-python and aiokafka name the fields alike."""
    epoch = getattr(record, "leader_epoch", None)
    return Read(
        record.topic,
        record.partition,
        record.offset,
        -1 if epoch is None else epoch,
        -1 if record.timestamp is None else record.timestamp,
        record.key,
        record.value,
        record.headers,
    )
