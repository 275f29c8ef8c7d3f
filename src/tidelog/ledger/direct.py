"""Producers of kafka-python and aiokafka that store their rows themselves: without a lock, and without an
object for each record that the garbage collector watches.

Anything unusual is left to the classes that `producers.py` has for any recorder: texts, tombstones,
transactions, a file that is full, a topic's first record. `confluent.py` has the same in line: there a call
more is a tenth of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as NoRoom
from time import time_ns
from typing import Any, Final

from crc32c import crc32c

from tidelog.evidence.journals.clients import OK
from tidelog.ledger.identity import pack_header
from tidelog.ledger.producers import Aiokafka, KafkaPython, refused, settle_done, settle_failed, with_header
from tidelog.ledger.sampling import chosen
from tidelog.ledger.sends import Entry, File, SendRecorder, pack_intent, pack_outcome
from tidelog.ledger.serializing import to_bytes

NOWHERE: Final = 1 << 62
"""A place that no file has."""

Place = tuple[File, int, bytes | None]
"""Where the intent is, and the header of the record."""


class _Direct:
    """What both share."""

    def __init__(self, recorder: SendRecorder) -> None:
        self._recorder = recorder
        self._streams, self._limit, self._header = recorder.streams, recorder.limit, recorder.header

    def store(self, topic: str, value: Any, key: Any, partition: int | None) -> Place | None:
        """None: it is left to `intend`."""
        recorder, limit = self._recorder, self._limit
        if not isinstance(value, bytes) or (key is not None and not isinstance(key, bytes)):
            return None
        if limit is not None and not chosen(limit, key, value):
            return None
        stream = self._streams.get(topic)
        if stream is None or recorder.transaction is not None:
            return None
        now_ns = time_ns()
        next_place, file, intents, until_ns = room = stream.room
        place = next_place() if now_ns <= until_ns else NOWHERE
        if stream.room is not room and not recorder.is_of(room, place):
            place = NOWHERE
        crc = crc32c(value)
        try:
            wanted = 0 if partition is None else partition + 1
            pack_intent(intents, place, len(value) + 1, crc, wanted, key or b"", now_ns)
        except (NoRoom, TypeError):  # the file has ended, or this is no partition
            return None
        return file, place, pack_header(stream.id, file.number(place), crc) if self._header else None


class DirectKafkaPython(KafkaPython):
    def __init__(self, producer: Any, recorder: SendRecorder) -> None:
        super().__init__(producer, recorder)
        self._store, self._send = _Direct(recorder).store, producer.send

    def send(  # noqa: PLR0917
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        more = [] if headers is None else headers  # to which a serializer may add
        key, value = to_bytes(self._of_key, topic, more, key), to_bytes(self._of_value, topic, more, value)
        stored = self._store(topic, value, key, partition)
        if stored is None:
            return super().send(topic, value, key, more, partition, timestamp_ms)
        file, place, header = stored
        if header is not None:
            more = with_header(more, header)
        try:
            future = self._send(topic, value, key, more, partition, timestamp_ms)
        except BaseException as error:
            refused(Entry((file, place, None, None)), error)
            raise
        called = (file.receiver or _meet(file, _of_kafka_python))[1](place)
        future.add_callback(called)
        future.add_errback(called)
        return future


class DirectAiokafka(Aiokafka):
    def __init__(self, producer: Any, recorder: SendRecorder) -> None:
        super().__init__(producer, recorder)
        self._store, self._send = _Direct(recorder).store, producer.send

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
        stored = self._store(topic, value, key, partition)
        if stored is None:
            return await super().send(topic, value, key, partition, timestamp_ms, headers)
        file, place, header = stored
        if header is not None:
            headers = with_header(headers, header)
        try:
            future = await self._send(topic, value, key, partition, timestamp_ms, headers)
        except BaseException as error:
            refused(Entry((file, place, None, None)), error)
            raise
        future.add_done_callback((file.receiver or _meet(file, _of_aiokafka))[1](place))
        return future


# ---------------------------------------------------------------- outcomes


def _meet(file: File, make: Callable[[File], type[int]]) -> tuple[Any, type[int]]:
    """A class of places of this file that can be called with the outcome."""
    file.receiver = make, make(file)
    return file.receiver


def _of_kafka_python(file: File) -> type[int]:
    outcomes = file.outcomes

    class Receiver(int):
        __slots__ = ()

        def __call__(self, found: Any) -> None:
            if isinstance(found, BaseException):
                settle_failed(Entry((file, int(self), None, None)), found)
            else:
                now_ns = time_ns()
                pack_outcome(outcomes, self, found.partition + 1, found.offset + 1, now_ns, OK)

    return Receiver


def _of_aiokafka(file: File) -> type[int]:
    outcomes = file.outcomes

    class Receiver(int):
        __slots__ = ()

        def __call__(self, future: Any) -> None:
            if future.cancelled() or future.exception() is not None:
                settle_done(Entry((file, int(self), None, None)), future)
            else:
                found, now_ns = future.result(), time_ns()
                pack_outcome(outcomes, self, found.partition + 1, found.offset + 1, now_ns, OK)

    return Receiver
