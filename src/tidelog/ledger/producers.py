"""Producers of three Python libraries, each behind a proxy that records every send.

A proxy passes everything on and has the class of what it wraps, as far as `isinstance` asks. Only sends and
transactions are its own: it records the intent, lets the library send, and settles when the library reports.
No library is imported here: a producer is recognized by its class.

Rules of the file:

* Whatever the library raises reaches the caller unchanged. A record that it did not take has failed.
* Callbacks, futures and serializers of the application are called as before, once each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from tidelog.errors import Refusal
from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN
from tidelog.evidence.outcomes import outcome_of
from tidelog.ledger.identity import HEADER
from tidelog.ledger.proxy import KNOWN, Closing, ClosingLater, Library, Proxy, class_names
from tidelog.ledger.serializing import once, to_bytes

_FLUSH_SECONDS: Final = 60.0


class Recorded(Protocol):
    """A send whose intent is recorded."""

    @property
    def header(self) -> bytes | None: ...

    def settle(
        self, outcome: int, partition: int | None, offset: int | None, code: int = 0, error: str = ""
    ) -> None: ...


class Recorder(Protocol):
    """Where proxies record."""

    def intend(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None
    ) -> Recorded | None: ...

    def begin(self) -> None: ...

    def end(self, outcome: int) -> None: ...

    def miss(self, what: str) -> None: ...

    def close(self) -> None: ...


_PRODUCERS: Final = {
    "cimpl.Producer": Library.CONFLUENT,
    "confluent_kafka.Producer": Library.CONFLUENT,
    "kafka.KafkaProducer": Library.KAFKA_PYTHON,
    "aiokafka.AIOKafkaProducer": Library.AIOKAFKA,
}
_SERIALIZING: Final = "confluent_kafka.SerializingProducer"


def library_of(producer: Any) -> Library:
    """Whose producer it is. Raises `Refusal`."""
    names = class_names(producer)
    if _SERIALIZING in names:
        raise Refusal("wrap a confluent_kafka.Producer, and serialize values before produce()")
    for name in names:
        if name in _PRODUCERS:
            return _PRODUCERS[name]
    raise Refusal(
        f"wrap takes a producer of {KNOWN}, not a {type(producer).__module__}.{type(producer).__name__}"
    )


def wrapped(producer: Any, recorder: Recorder, on_delivery: Any = None) -> tuple[Any, Callable[[], None]]:
    """The proxy of a producer, and a function that waits for its outstanding sends. Raises `Refusal`."""
    library = library_of(producer)
    if library is Library.CONFLUENT:
        return Confluent(producer, recorder, on_delivery), lambda: producer.flush(_FLUSH_SECONDS)
    if on_delivery is not None:
        raise Refusal("on_delivery is for a producer of confluent-kafka")
    if library is Library.AIOKAFKA:
        return Aiokafka(producer, recorder), lambda: None
    return KafkaPython(producer, recorder), lambda: producer.flush(timeout=_FLUSH_SECONDS)


class _Producer(Proxy):
    def __init__(self, producer: Any, recorder: Recorder) -> None:
        super().__init__(producer)
        self._recorder = recorder
        self._intend = recorder.intend


class _Blocking(_Producer, Closing):
    """One whose calls return when they are done."""

    def begin_transaction(self, *args: Any) -> Any:
        found = self._wrapped.begin_transaction(*args)
        self._recorder.begin()
        return found

    def commit_transaction(self, *args: Any, **more: Any) -> Any:
        return self._ends(OK, partial(self._wrapped.commit_transaction, *args, **more))

    def abort_transaction(self, *args: Any, **more: Any) -> Any:
        return self._ends(FAILED, partial(self._wrapped.abort_transaction, *args, **more))

    def _ends(self, outcome: int, end: Callable[[], Any]) -> Any:
        """Let the library end a transaction."""
        try:
            found = end()
        except BaseException as error:
            # One that may be tried again goes on.
            if not _is_retriable(error):
                self._recorder.end(UNKNOWN)
            raise
        self._recorder.end(outcome)
        return found


class Confluent(_Blocking):
    def __init__(self, producer: Any, recorder: Recorder, on_delivery: Any) -> None:
        super().__init__(producer, recorder)
        self._produce = producer.produce
        self._default = on_delivery

    def produce(  # noqa: PLR0917
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        entry = self._intend(
            topic,
            partition,
            key if key is None or type(key) is bytes else _encoded(key),
            value if value is None or type(value) is bytes else _encoded(value),
        )
        theirs = callback or on_delivery or self._default
        if entry is None:
            called = theirs
        else:
            called = partial(delivered, entry, theirs)
            if entry.header is not None:
                headers = with_header(headers, entry.header)
        try:
            self._produce(topic, value, key, partition, called, None, timestamp, headers)
        except BaseException as error:
            refused(entry, error)
            raise

    def produce_batch(self, topic: str, messages: Any, partition: int = -1, **more: Any) -> Any:
        self._recorder.miss("produce_batch")
        return self._wrapped.produce_batch(topic, messages, partition, **more)

    def __len__(self) -> int:
        return len(self._wrapped)

    def __bool__(self) -> bool:
        return bool(self._wrapped)


def _encoded(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def delivered(entry: Recorded, theirs: Any, error: Any, message: Any) -> None:
    if error is None:
        entry.settle(OK, message.partition(), message.offset())
    else:
        code = error.code()
        entry.settle(outcome_of(code), message.partition(), None, code, error.name())
    if theirs is not None:
        theirs(error, message)


class KafkaPython(_Blocking):
    def __init__(self, producer: Any, recorder: Recorder) -> None:
        super().__init__(producer, recorder)
        config = producer.config
        for name in ("key_serializer", "value_serializer"):
            config[name] = once(config.get(name))
        self._of_key, self._of_value = config["key_serializer"], config["value_serializer"]

    def send(  # noqa: PLR0917
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        headers = [] if headers is None else headers  # to which a serializer may add
        key = to_bytes(self._of_key, topic, headers, key)
        value = to_bytes(self._of_value, topic, headers, value)
        entry = self._intend(topic, -1 if partition is None else partition, key, value)
        if entry is not None and entry.header is not None:
            headers = with_header(headers, entry.header)
        try:
            future = self._wrapped.send(
                topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        except BaseException as error:
            refused(entry, error)
            raise
        if entry is not None:
            future.add_callback(lambda found: entry.settle(OK, found.partition, found.offset))
            future.add_errback(partial(settle_failed, entry))
        return future


class Aiokafka(_Producer, ClosingLater):
    def __init__(self, producer: Any, recorder: Recorder) -> None:
        super().__init__(producer, recorder)
        for name in ("_key_serializer", "_value_serializer"):
            setattr(producer, name, once(getattr(producer, name)))
        self._of_key, self._of_value = producer._key_serializer, producer._value_serializer

    async def send(  # noqa: PLR0917
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        key, value = to_bytes(self._of_key, topic, [], key), to_bytes(self._of_value, topic, [], value)
        entry = self._intend(topic, -1 if partition is None else partition, key, value)
        if entry is not None and entry.header is not None:
            headers = with_header(headers, entry.header)
        try:
            future = await self._wrapped.send(
                topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except BaseException as error:
            refused(entry, error)
            raise
        if entry is not None:
            future.add_done_callback(partial(settle_done, entry))
        return future

    async def send_and_wait(self, topic: str, *args: Any, **more: Any) -> Any:
        return await (await self.send(topic, *args, **more))

    async def send_batch(self, *args: Any, **more: Any) -> Any:
        self._recorder.miss("send_batch")
        return await self._wrapped.send_batch(*args, **more)

    def transaction(self) -> Any:
        """A context that begins, commits and aborts through this proxy."""
        return type(self._wrapped.transaction())(self)

    async def begin_transaction(self) -> Any:
        found = await self._wrapped.begin_transaction()
        self._recorder.begin()
        return found

    async def commit_transaction(self) -> Any:
        return await self._ends_later(OK, self._wrapped.commit_transaction)

    async def abort_transaction(self) -> Any:
        return await self._ends_later(FAILED, self._wrapped.abort_transaction)

    async def _ends_later(self, outcome: int, end: Callable[[], Any]) -> Any:
        try:
            found = await end()
        except BaseException:
            self._recorder.end(UNKNOWN)
            raise
        self._recorder.end(outcome)
        return found


# ---------------------------------------------------------------- outcomes


def refused(entry: Recorded | None, error: BaseException) -> None:
    """The library did not take it."""
    if entry is not None:
        entry.settle(FAILED, None, None, error=type(error).__name__)


def settle_failed(entry: Recorded, error: BaseException) -> None:
    code = max(int(getattr(error, "errno", 0) or 0), 0)
    entry.settle(outcome_of(code) if code else UNKNOWN, None, None, code, type(error).__name__)


def settle_done(entry: Recorded, future: Any) -> None:
    if future.cancelled():
        entry.settle(UNKNOWN, None, None, error="cancelled")
    elif (error := future.exception()) is not None:
        settle_failed(entry, error)
    else:
        found = future.result()
        entry.settle(OK, found.partition, found.offset)


def _is_retriable(error: BaseException) -> bool:
    """Whether the transaction goes on, and the same call may be made again. Of librdkafka."""
    with suppress(Exception):
        return bool(error.args[0].retriable())
    return False


# ---------------------------------------------------------------- what goes over the wire


def with_header(headers: Any, header: bytes) -> list[Any]:
    pairs = headers.items() if hasattr(headers, "items") else headers or ()
    return [*pairs, (HEADER, header)]
