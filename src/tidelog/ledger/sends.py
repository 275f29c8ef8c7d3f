"""The sends of one wrapped producer on disk: the intent before the library gets a record, then its outcome.

Rules of the file:

* A row is stored in a memory-mapped file before `intend` returns, so it survives a kill of the process. A
  crash of the machine loses what the kernel had not written back.
* What a producer sends to one topic is a *stream*: an id, numbers from 0, files of its own. The first file is
  small, so that an application with many topics needs little space.
* A file is full after `rows`, or ends after `seconds`. Space is allocated when a file is opened, and only
  then can the disk be full: recording then stops, the files say so, and the application goes on.
* Sends of a transaction keep the outcome unknown until the transaction has one.
* Every record passes here. So a row is stored by two `struct`s, one for the intent and one for the outcome;
  `next` of a counter gives out rows without a lock, and the end of the file is noticed by `struct` itself.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from itertools import count
from operator import itemgetter
from pathlib import Path
from struct import Struct
from time import time_ns
from typing import Any, Final

from crc32c import crc32c

from tidelog.errors import Refusal
from tidelog.evidence.journals.clients import KEY_BYTES, OK
from tidelog.evidence.journals.slots import SUFFIX, Ending, SlotColumn, Slots
from tidelog.ledger.folder import opened, why
from tidelog.ledger.identity import pack_header
from tidelog.ledger.sampling import chosen, threshold

_log = logging.getLogger("tidelog.ledger")

BY_HEADER: Final = "header"
BY_CONTENT: Final = "content"
_ERROR_BYTES: Final = 40
_FIRST_ROWS: Final = 4096
_NANOS: Final = 1_000_000_000

_INTENT: Final = (
    SlotColumn("value_bytes", "i", "plus_one"),
    SlotColumn("value_crc32c", "I"),
    SlotColumn("wanted", "i", "plus_one"),
    SlotColumn("key", f"{KEY_BYTES + 1}p"),
    SlotColumn("sent_us", "q", "nanoseconds"),
)
_OUTCOME: Final = (
    SlotColumn("partition", "i", "plus_one"),
    SlotColumn("offset", "q", "plus_one"),
    SlotColumn("settled_us", "q", "nanoseconds"),
    SlotColumn("mark", "b"),
)
_RARE: Final = (
    SlotColumn("transaction", "q", "zero"),
    SlotColumn("error_code", "i", "zero"),
    SlotColumn("error", f"{_ERROR_BYTES}s"),
)


def _layout(columns: tuple[SlotColumn, ...]) -> Struct:
    return Struct("<" + "".join(column.code for column in columns))


_INTENT_BYTES: Final = _layout(_INTENT).size
_STRIDE: Final = _INTENT_BYTES + _layout(_OUTCOME).size
pack_intent: Final = _layout(_INTENT).pack_into
"""Into `File.intents`, at the place of a row."""
pack_outcome: Final = _layout(_OUTCOME).pack_into
"""Into `File.outcomes`, at the same place."""
_SETTLED: Final = Struct("<qb")
_SETTLED_AT: Final = _layout(_OUTCOME).size - _SETTLED.size


class LedgerError(Refusal):
    """A send cannot be recorded, and `strict` says that it must not be made then."""


class File:
    """One file of a stream. A row has a place, its number times the bytes of a row."""

    __slots__ = (
        "code",
        "end_place",
        "error_at",
        "first",
        "intents",
        "mapped",
        "outcomes",
        "receiver",
        "slots",
        "strangers",
        "transaction",
    )

    def __init__(self, slots: Slots, first: int) -> None:
        self.slots = slots
        self.mapped = slots.mapped
        self.first = first
        self.end_place = _STRIDE * slots.capacity
        """Places from here on are not of this file."""
        self.intents = slots.packed_rows
        self.outcomes = slots.packed_rows[_INTENT_BYTES:]
        self.transaction = slots.column("transaction")
        self.code = slots.column("error_code")
        self.error_at = slots.text_start("error")
        self.receiver: tuple[Any, type[int]] | None = None
        """The callback that sends to this file mostly have, and what is made of it: for `confluent.py`."""
        self.strangers = 0

    def number(self, place: int) -> int:
        """Of a send, in its stream."""
        return self.first + place // _STRIDE

    def is_settled(self, place: int) -> bool:
        at = place + _SETTLED_AT
        return any(self.outcomes[at : at + _SETTLED.size])

    def failed(self, place: int, code: int, error: str) -> None:
        row = place // _STRIDE
        self.code[row] = code
        text = error.encode("ascii", "replace")[:_ERROR_BYTES].replace(b"\0", b"?")
        at = self.error_at + row * _ERROR_BYTES
        self.mapped[at : at + len(text)] = text


class Entry(tuple[Any, ...]):
    """A send whose intent is on disk: its file, its place, its header, its transaction. A tuple, because
    making one costs a third of making another object."""

    __slots__ = ()

    header = property(itemgetter(2))

    def settle(
        self, outcome: int, partition: int | None, offset: int | None, code: int = 0, error: str = ""
    ) -> None:
        """Its outcome is known. A second one changes nothing."""
        file, place, _, transaction = self
        if file.is_settled(place):
            return
        if code or error:
            file.failed(place, code, error)
        mark = outcome
        if transaction is not None and outcome == OK:
            mark = transaction.outcome
            if not mark:
                transaction.delivered.append((file, place))
        where = 0 if partition is None or partition < 0 else partition + 1
        pack_outcome(
            file.outcomes, place, where, 0 if offset is None else max(offset + 1, 0), time_ns(), mark
        )


class Transaction:
    """The sends of a transaction that were delivered: it decides about all of them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcome = 0
        self.delivered: list[tuple[File, int]] = []

    def end(self, outcome: int) -> None:
        self.outcome = outcome
        now_ns = time_ns()
        for file, place in self.delivered:
            _SETTLED.pack_into(file.outcomes, place + _SETTLED_AT, now_ns, outcome)
        self.delivered.clear()


Room = tuple[Callable[[], int], File, memoryview, int]
"""Where a stream stores its next send: what gives out places, the file, its intents, and until when.
Replaced as a whole, because several threads look at it. A plain tuple: each record unpacks one."""


class Stream:
    """What one producer sends to one topic."""

    __slots__ = ("_constants", "_folder", "_number", "_rows_max", "id", "room")

    room: Room

    def __init__(self, folder: Path, topic: str, constants: Mapping[str, Any], rows_max: int) -> None:
        self.id = secrets.randbits(64)
        self._folder = folder
        name = f"{constants['producer']}-{self.id:016x}"
        self._constants = {**constants, "producer": name, "stream": f"{self.id:016x}", "topic": topic}
        self._rows_max = rows_max
        self._number = -1

    def turn(self, until_ns: int) -> None:
        """Go on in a new file. Called under the lock."""
        number, first = self._number + 1, 0
        rows = self._rows_max if number else min(_FIRST_ROWS, self._rows_max)
        if number:
            # Other threads find no room from here on, so that the place taken next is the first of the new
            # file; what was taken before is of the old one.
            self.close()
            next_place, old, *_ = self.room
            old.end_place = min(old.end_place, next_place())
            first = old.number(old.end_place)
        path = self._folder / f"ledger-{self._constants['producer']}-{number:06d}{SUFFIX}"
        constants = {**self._constants, "first": first}
        slots = Slots.create(path, "ledger", _RARE, constants, rows, packed=(*_INTENT, *_OUTCOME))
        self.end(Ending.FINISHED)
        file = File(slots, first)
        self._number = number
        self.room = (count(0, _STRIDE).__next__, file, file.intents, until_ns)

    def close(self) -> None:
        """The next send needs a new file."""
        self.room = (*self.room[:3], 0)

    def end(self, ending: Ending) -> None:
        """The same; and how the file ended."""
        if self._number >= 0:
            slots = self.room[1].slots
            slots.ending = slots.ending or ending
            self.close()


class SendRecorder:
    """Records the sends of one producer. Used by several threads. `streams`, `limit`, `header` and
    `transaction` are for callers that store rows without a call for each (`confluent.py`)."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        header: bool,
        sample: float,
        strict: bool,
        rows: int,
        seconds: float,
        **constants: Any,
    ) -> None:
        self.header = header
        self.limit = threshold(sample)
        self._strict = strict
        self._rows = rows
        self._nanos = int(seconds * _NANOS)
        self._lock = threading.Lock()
        self.streams: dict[str, Stream] = {}
        self._transactions = 0
        self.transaction: Transaction | None = None
        self._missed = False
        self.stopped = ""
        """Why nothing is recorded any more."""
        self._constants = {
            "producer": name,
            "values": BY_HEADER if header else BY_CONTENT,
            "sample": sample,
            "transactions": secrets.token_hex(8),
            "zone": "",
            **constants,
        }
        self._folder = folder
        try:
            self._folder = opened(folder)
        except OSError as error:
            self._stop(error)

    def intend(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> Entry | None:
        """Record a send before it is made; a negative partition is not known. None: it is not recorded."""
        if self.limit is not None and not chosen(self.limit, key, value):
            return None
        try:
            now_ns = time_ns()
            size, crc = (0, 0) if value is None else (len(value) + 1, crc32c(value))
            transaction = self.transaction
            wanted = partition + 1 if type(partition) is int and partition >= 0 else 0
            stored = (size, crc, wanted, key or b"")
            with self._lock:
                stream = self.streams.get(topic)
                while True:
                    if stream is None or now_ns > stream.room[3]:
                        stream = self._ready(topic, now_ns)
                        if stream is None:
                            return None
                    next_place, file, intents, _ = stream.room
                    place = next_place()
                    if place < file.end_place:
                        break
                    stream.close()
                if transaction is not None:
                    file.transaction[place // _STRIDE] = transaction.number
                pack_intent(intents, place, *stored, now_ns)
            header = pack_header(stream.id, file.number(place), crc) if self.header else None
            return Entry((file, place, header, transaction))
        except Exception as error:
            self._stop(error)
            return None

    def is_of(self, room: Room, place: int) -> bool:
        """Whether a place belongs to the file that it was taken for, which another thread may have left."""
        with self._lock:
            return place < room[1].end_place

    def _ready(self, topic: str, now_ns: int) -> Stream | None:
        """The stream of a topic with room for one more send."""
        if self.stopped:
            self._refuse()
            return None
        stream = self.streams.get(topic)
        if stream is None:
            stream = Stream(self._folder, topic, self._constants, self._rows)
            stream.turn(now_ns + self._nanos)
            self.streams[topic] = stream
        else:
            stream.turn(now_ns + self._nanos)
        return stream

    # ------------------------------------------------------------ transactions

    def begin(self) -> None:
        self._transactions += 1
        self.transaction = Transaction(self._transactions)

    def end(self, outcome: int) -> None:
        """The transaction has committed (OK), was aborted (FAILED), or it is not known (UNKNOWN)."""
        ended, self.transaction = self.transaction, None
        if ended is not None:
            ended.end(outcome)

    # ------------------------------------------------------------ the end

    def miss(self, what: str) -> None:
        """Something is sent in a way that cannot be recorded: from now on the ledger does not know
        everything. It goes on with what it can record."""
        with self._lock:
            if self._missed:
                return
            self._missed = True
            for stream in self.streams.values():
                stream.end(Ending.STOPPED)
        _log.warning("sends by %s are not recorded in %s", what, self._folder)

    def _refuse(self) -> None:
        if self._strict:
            raise LedgerError(f"nothing is sent, because it cannot be recorded: {self.stopped}")

    def _stop(self, error: Exception) -> None:
        if isinstance(error, LedgerError):
            raise error
        with self._lock:
            first = not self.stopped
            self.stopped = f"{self._folder}: {why(error)}"
            for stream in self.streams.values():
                stream.end(Ending.STOPPED)
            self.streams.clear()
            if first:
                _log.warning("recording of sends has stopped, the application goes on: %s", self.stopped)
            self._refuse()

    def close(self) -> None:
        with self._lock:
            for stream in self.streams.values():
                stream.end(Ending.FINISHED)
            self.streams.clear()
