"""Producers of three Python libraries, each behind a proxy that tells the ledger of every send.

A proxy passes everything on; only sends are its own: it writes down the intent, lets the library send, and
settles when the library reports. No library is imported here: a producer is recognized by its class.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.errors import Refusal
from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN
from tidelog.evidence.outcomes import outcome_of

if TYPE_CHECKING:
    from tidelog.testing.ledger import Send


class Outgoing(NamedTuple):
    """A record that is to be sent."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None


class Report(NamedTuple):
    """What became of it."""

    outcome: int
    partition: int | None = None
    offset: int | None = None
    code: int = 0
    error: str = ""


Intend = Callable[[Outgoing], "Send"]
Settle = Callable[["Send", Report], None]

_FLUSH_SECONDS: Final = 60.0


def wrapped(producer: Any, intend: Intend, settle: Settle) -> tuple[Any, Callable[[], None]]:
    """The proxy of a producer, and a function that waits for its outstanding sends."""
    modules = {cls.__module__.partition(".")[0] for cls in type(producer).__mro__}
    if "confluent_kafka" in modules or "cimpl" in modules:
        return _Confluent(producer, intend, settle), lambda: producer.flush(_FLUSH_SECONDS)
    if "aiokafka" in modules:
        return _Aiokafka(producer, intend, settle), lambda: None
    if "kafka" in modules:
        return _KafkaPython(producer, intend, settle), lambda: producer.flush(timeout=_FLUSH_SECONDS)
    raise Refusal(
        f"kafka_ledger.wrap takes a producer of confluent-kafka, kafka-python or aiokafka, not "
        f"a {type(producer).__name__}"
    )


class _Proxy:
    def __init__(self, producer: Any, intend: Intend, settle: Settle) -> None:
        self._producer = producer
        self._intend = intend
        self._settle = settle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def _refused(self, send: Send, error: BaseException) -> None:
        """The library did not take it."""
        self._settle(send, Report(FAILED, error=type(error).__name__))


class _Confluent(_Proxy):
    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: Any = None,
        *,
        callback: Any = None,
        **more: Any,
    ) -> None:
        place = None if partition < 0 else partition
        send = self._intend(Outgoing(topic, place, _bytes(key), _bytes(value)))
        theirs = on_delivery or callback

        def delivered(error: Any, message: Any) -> None:
            code = error.code() if error is not None else 0
            offset = message.offset() if error is None else None
            name = error.name() if error is not None else ""
            self._settle(send, Report(outcome_of(code), message.partition(), offset, code, name))
            if theirs is not None:
                theirs(error, message)

        try:
            self._producer.produce(
                topic, value=value, key=key, partition=partition, on_delivery=delivered, **more
            )
        except BaseException as error:
            self._refused(send, error)
            raise

    def __len__(self) -> int:
        return len(self._producer)


class _KafkaPython(_Proxy):
    def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> Any:
        config = self._producer.config
        send = self._intend(
            Outgoing(
                topic,
                more.get("partition"),
                _serialized(config.get("key_serializer"), topic, key),
                _serialized(config.get("value_serializer"), topic, value),
            )
        )
        try:
            future = self._producer.send(topic, value=value, key=key, **more)
        except BaseException as error:
            self._refused(send, error)
            raise
        future.add_callback(lambda found: self._settle(send, Report(OK, found.partition, found.offset)))
        future.add_errback(lambda error: self._failed(send, error))
        return future

    def _failed(self, send: Send, error: BaseException) -> None:
        self._settle(send, _failure(error))

    def __enter__(self) -> _KafkaPython:
        self._producer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._producer.__exit__(*error)


class _Aiokafka(_Proxy):
    async def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> Any:
        producer = self._producer
        send = self._intend(
            Outgoing(
                topic,
                more.get("partition"),
                _serialized(getattr(producer, "_key_serializer", None), topic, key),
                _serialized(getattr(producer, "_value_serializer", None), topic, value),
            )
        )
        try:
            future = await producer.send(topic, value=value, key=key, **more)
        except BaseException as error:
            self._refused(send, error)
            raise
        future.add_done_callback(lambda done: self._done(send, done))
        return future

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> Any:
        return await (await self.send(topic, value, key, **more))

    def _done(self, send: Send, future: Any) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or error is not None:
            self._settle(send, Report(UNKNOWN, error="cancelled") if error is None else _failure(error))
        else:
            found = future.result()
            self._settle(send, Report(OK, found.partition, found.offset))

    async def __aenter__(self) -> _Aiokafka:
        await self._producer.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._producer.__aexit__(*error)


def _failure(error: BaseException) -> Report:
    code = max(int(getattr(error, "errno", 0) or 0), 0)
    return Report(outcome_of(code) if code else UNKNOWN, code=code, error=type(error).__name__)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _serialized(serializer: Any, topic: str, value: Any) -> bytes | None:
    """What goes over the wire."""
    if serializer is None or value is None:
        return _bytes(value)
    if hasattr(serializer, "serialize"):  # kafka-python's class, which got a second argument in version 3
        between: list[Any] = [] if len(signature(serializer.serialize).parameters) == 2 else [[]]
        return bytes(serializer.serialize(topic, *between, value))
    return bytes(serializer(value))
