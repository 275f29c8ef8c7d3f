"""A producer of confluent-kafka that stores its rows itself: some applications send 100,000 records a second.

What `producers.Confluent` does for any recorder, in one call per record and one per outcome. Anything unusual
is left to that class: texts, tombstones, transactions, a file that is full, a topic's first record.

Rules of the file:

* Nothing is made for a record that the garbage collector would have to watch until its outcome comes: tens
  of thousands may be in flight. What librdkafka keeps is a number that can be called, its class has the rest.
* Such a class is made for a file and a callback of the application, not for each record. A callback that is
  another one takes the slower way, and gets a class once in `_STRANGERS` of them.
"""

from __future__ import annotations

from functools import partial
from struct import error as NoRoom
from time import time_ns
from typing import Any, Final
from zlib import crc32

from crc32c import crc32c

from tidelog.evidence.journals.clients import OK
from tidelog.ledger.identity import HEADER, pack_header
from tidelog.ledger.producers import Confluent, delivered, refused, with_header
from tidelog.ledger.sends import Entry, File, SendRecorder, pack_intent, pack_outcome

NOWHERE: Final = 1 << 62
"""A place that no file has."""
_STRANGERS: Final = 64


class DirectConfluent(Confluent):
    """`produce` is a function with all it needs at hand: looking up an attribute of a proxy costs as much as
    storing a row."""

    def __init__(self, producer: Any, recorder: SendRecorder, on_delivery: Any) -> None:
        super().__init__(producer, recorder, on_delivery)
        self.produce = _direct(super().produce, producer.produce, recorder, on_delivery)  # type: ignore[method-assign]


def _direct(slow: Any, send: Any, recorder: SendRecorder, default: Any) -> Any:
    streams, limit, has_header = recorder.streams, recorder.limit, recorder.header

    def produce(  # noqa: PLR0917
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        theirs = callback or on_delivery or default
        if limit is not None:
            known = key if key is not None else value
            if type(known) is bytes and crc32(known) >= limit:  # `sampling.chosen`
                send(topic, value, key, partition, theirs, None, timestamp, headers)
                return
        stream = streams.get(topic)
        is_plain = type(value) is bytes and (type(key) is bytes or key is None)
        if stream is None or not is_plain or recorder.transaction is not None:
            slow(topic, value, key, partition, theirs, None, timestamp, headers)
            return
        now_ns = time_ns()
        next_place, file, intents, until_ns = room = stream.room
        place = next_place() if now_ns <= until_ns else NOWHERE
        if stream.room is not room and not recorder.is_of(room, place):
            place = NOWHERE
        crc = crc32c(value)
        try:
            pack_intent(intents, place, len(value) + 1, crc, partition + 1, key or b"", now_ns)
        except (NoRoom, TypeError):  # the file has ended, or this is no partition
            slow(topic, value, key, partition, theirs, None, timestamp, headers)
            return
        if has_header:
            header = pack_header(stream.id, file.number(place), crc)
            headers = with_header(headers, header) if headers else {HEADER: header}
        known, receiver = file.receiver or _meet(file, theirs)
        try:
            called = receiver(place) if theirs is known or theirs == known else _stranger(file, place, theirs)
            if headers is None and not timestamp:
                send(topic, value, key, partition, called)  # what is not given need not be read
            else:
                send(topic, value, key, partition, called, None, timestamp, headers)
        except BaseException as error:
            refused(Entry((file, place, None, None)), error)
            raise

    return produce


def _stranger(file: File, place: int, theirs: Any) -> Any:
    """What is called for a callback that the file does not know."""
    file.strangers += 1
    if not file.strangers % _STRANGERS:
        _meet(file, theirs)
    return partial(delivered, Entry((file, place, None, None)), theirs)


def _meet(file: File, theirs: Any) -> tuple[Any, type[int]]:
    """A callback, with the class of what librdkafka keeps for it."""
    outcomes = file.outcomes

    class Receiver(int):
        """The place of a row, called with the outcome."""

        __slots__ = ()

        def __call__(self, error: Any, message: Any) -> None:
            if error is not None:
                delivered(Entry((file, int(self), None, None)), theirs, error, message)
                return
            where, offset = message.partition() + 1, message.offset() + 1
            pack_outcome(outcomes, self, where, offset, time_ns(), OK)
            if theirs is not None:
                theirs(error, message)

    file.receiver = theirs, Receiver
    return file.receiver
