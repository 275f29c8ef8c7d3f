"""The sends of one wrapped producer on disk: the intent before the library gets a record, then its outcome.

Rules of the file:

* A row is stored in a memory-mapped file before `intend` returns, so it survives a kill of the process. A
  crash of the machine loses what the kernel had not written back.
* What a producer sends to one topic is a *stream*: an id, numbers from 0, files of its own. The first file is
  small, so that an application with many topics needs little space.
* A file is full after `rows`, or ends after `seconds`. Space is allocated when a file is opened, and only
  then can the disk be full: recording then stops, the files say so, and the application goes on.
* Sends of a transaction keep the outcome unknown until the transaction has one.
"""

from __future__ import annotations

import logging
import secrets
import threading
from array import array
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from time import time_ns
from typing import Any, Final

from crc32c import crc32c

from tidelog.errors import Refusal
from tidelog.evidence.journals.clients import INTENDED, KEY_BYTES, OK, plain
from tidelog.evidence.journals.slots import SUFFIX, Ending, SlotColumn, Slots
from tidelog.ledger.folder import opened, why
from tidelog.ledger.identity import pack_header
from tidelog.ledger.sampling import chosen, threshold

_log = logging.getLogger("tidelog.ledger")

BY_HEADER: Final = "header"
BY_CONTENT: Final = "content"
_ERROR_BYTES: Final = 40
_FIRST_ROWS: Final = 4096
_MICROS: Final = 1_000_000

COLUMNS: Final = (
    SlotColumn("sequence", "q"),
    SlotColumn("partition", "i", "plus_one"),
    SlotColumn("key", f"{KEY_BYTES}s"),
    SlotColumn("value_bytes", "i", "plus_one"),
    SlotColumn("value_crc32c", "q"),
    SlotColumn("sent_us", "q"),
    SlotColumn("settled_us", "q", "zero"),
    SlotColumn("offset", "q", "plus_one"),
    SlotColumn("error_code", "i", "zero"),
    SlotColumn("error", f"{_ERROR_BYTES}s"),
    SlotColumn("transaction", "q", "zero"),
)


class LedgerError(Refusal):
    """A send cannot be recorded, and `strict` says that it must not be made then."""


class _File:
    """One file of a stream, with its columns at hand."""

    __slots__ = (
        "code",
        "crc",
        "error_at",
        "key_at",
        "mapped",
        "marks",
        "offset",
        "partition",
        "sent",
        "settled",
        "size",
        "slots",
        "transaction",
    )

    def __init__(self, slots: Slots, first: int) -> None:
        self.slots = slots
        self.mapped = slots.mapped
        self.marks = slots.marks
        self.partition = slots.column("partition")
        self.size = slots.column("value_bytes")
        self.crc = slots.column("value_crc32c")
        self.sent = slots.column("sent_us")
        self.settled = slots.column("settled_us")
        self.offset = slots.column("offset")
        self.code = slots.column("error_code")
        self.transaction = slots.column("transaction")
        self.key_at = slots.text_start("key")
        self.error_at = slots.text_start("error")
        # Known beforehand, so the hot path does not store them.
        numbers = array("q", range(first, first + slots.capacity))
        slots.bytes_of("sequence", slots.capacity)[:] = memoryview(numbers).cast("B")


class Entry(tuple[Any, ...]):
    """A send whose intent is on disk: its file, its row, its header, its transaction. A tuple, because making
    one costs a third of making another object."""

    __slots__ = ()

    header = property(itemgetter(2))

    def settle(
        self, outcome: int, partition: int | None, offset: int | None, code: int = 0, error: str = ""
    ) -> None:
        """Its outcome is known. A second one changes nothing."""
        file, row, _, transaction = self
        if file.settled[row]:
            return
        if partition is not None and partition >= 0:
            file.partition[row] = partition + 1
        if offset is not None and offset >= 0:
            file.offset[row] = offset + 1
        if code or error:
            file.code[row] = code
            text = plain(error.encode("ascii", "replace")[:_ERROR_BYTES])
            at = file.error_at + row * _ERROR_BYTES
            file.mapped[at : at + len(text)] = text
        file.settled[row] = time_ns() // 1000
        if transaction is None or outcome != OK:
            file.marks[row] = outcome
        elif transaction.outcome:
            file.marks[row] = transaction.outcome
        else:
            transaction.delivered.append((file, row))


class Transaction:
    """The sends of a transaction that were delivered: it decides about all of them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcome = 0
        self.delivered: list[tuple[_File, int]] = []

    def end(self, outcome: int) -> None:
        self.outcome = outcome
        now_us = time_ns() // 1000
        for file, row in self.delivered:
            file.settled[row] = now_us
            file.marks[row] = outcome
        self.delivered.clear()


class _Stream:
    """What one producer sends to one topic."""

    __slots__ = (
        "_constants",
        "_folder",
        "file",
        "first",
        "id",
        "number",
        "row",
        "rows",
        "rows_max",
        "until_us",
    )

    file: _File

    def __init__(self, folder: Path, topic: str, constants: Mapping[str, Any], rows_max: int) -> None:
        self.id = secrets.randbits(64)
        self._folder = folder
        name = f"{constants['producer']}-{self.id:016x}"
        self._constants = {**constants, "producer": name, "stream": f"{self.id:016x}", "topic": topic}
        self.rows_max = rows_max
        self.number = -1
        self.first = 0
        """The number of the first send in the file."""
        self.row = self.rows = 0
        self.until_us = 0

    def turn(self, until_us: int) -> None:
        """Go on in a new file."""
        number, first = self.number + 1, self.first + self.row
        rows = min(_FIRST_ROWS, self.rows_max) if not number else self.rows_max
        path = self._folder / f"ledger-{self._constants['producer']}-{number:06d}{SUFFIX}"
        file = _File(Slots.create(path, "ledger", COLUMNS, self._constants, rows), first)
        self.end(Ending.FINISHED)
        self.file, self.number, self.first = file, number, first
        self.row, self.rows, self.until_us = 0, rows, until_us

    def end(self, ending: Ending) -> None:
        """The next send needs a new file."""
        if self.number >= 0 and self.until_us:
            self.file.slots.ending = ending
        self.until_us = 0


class SendRecorder:
    """Records the sends of one producer. Used by several threads."""

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
        self._header = header
        self._limit = threshold(sample)
        self._strict = strict
        self._rows = rows
        self._micros = int(seconds * _MICROS)
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._transactions = 0
        self._transaction: Transaction | None = None
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
        """Record a send before it is made; a negative partition is not known. None: it is not recorded.

        This is the hot path: no call that is not needed, no object but the entry."""
        if self._limit is not None and not chosen(self._limit, key, value):
            return None
        try:
            now_us = time_ns() // 1000
            crc = 0 if value is None else crc32c(value)
            with self._lock:
                stream = self._streams.get(topic)
                if stream is None or stream.row == stream.rows or now_us > stream.until_us:
                    stream = self._ready(topic, now_us)
                    if stream is None:
                        return None
                row, file = stream.row, stream.file
                if value is not None:
                    file.size[row] = len(value) + 1
                    file.crc[row] = crc
                if key:
                    text = plain(key[:KEY_BYTES])
                    at = file.key_at + row * KEY_BYTES
                    file.mapped[at : at + len(text)] = text
                if partition >= 0:
                    file.partition[row] = partition + 1
                file.sent[row] = now_us
                transaction = self._transaction
                if transaction is not None:
                    file.transaction[row] = transaction.number
                file.marks[row] = INTENDED
                stream.row = row + 1
            header = pack_header(stream.id, stream.first + row, crc) if self._header else None
            return Entry((file, row, header, transaction))
        except Exception as error:
            self._stop(error)
            return None

    def _ready(self, topic: str, now_us: int) -> _Stream | None:
        """The stream of a topic with room for one more send."""
        if self.stopped:
            self._refuse()
            return None
        stream = self._streams.get(topic)
        if stream is None:
            stream = _Stream(self._folder, topic, self._constants, self._rows)
            self._streams[topic] = stream
        stream.turn(now_us + self._micros)
        return stream

    # ------------------------------------------------------------ transactions

    def begin(self) -> None:
        self._transactions += 1
        self._transaction = Transaction(self._transactions)

    def end(self, outcome: int) -> None:
        """The transaction has committed (OK), was aborted (FAILED), or it is not known (UNKNOWN)."""
        ended, self._transaction = self._transaction, None
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
            for stream in self._streams.values():
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
            for stream in self._streams.values():
                stream.end(Ending.STOPPED)
            self._streams.clear()
            if first:
                _log.warning("recording of sends has stopped, the application goes on: %s", self.stopped)
            self._refuse()

    def close(self) -> None:
        with self._lock:
            for stream in self._streams.values():
                stream.end(Ending.FINISHED)
            self._streams.clear()
