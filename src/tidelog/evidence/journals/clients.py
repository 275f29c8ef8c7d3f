"""The journals of clients: the sends of producers with their outcomes, and the reads of consumers.

    ledger = LedgerJournal(folder, sealer.seal, producer="p1", zone="az1", topic="t", acks=-1, …)
    # before the send
    sequence = ledger.intend(partition, b"k7", b"p1-0", size=120, crc=crc, now_us=now_us)
    # when the outcome is known
    ledger.settle(sequence, OK, offset, now_us)

Each journal is a series of files of 65,536 rows (`slots`). A full file is passed on to be sealed; that of a
ledger when the last of its sends is settled, so that its Parquet file is final.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from tidelog.evidence.journals.slots import SUFFIX, SlotColumn, Slots

INTENDED: Final = 1
OK: Final = 2
FAILED: Final = 3
UNKNOWN: Final = 4
OUTCOMES: Final = ("", "unknown", "ok", "failed", "unknown")
"""The outcomes by the marks of a ledger. A send that was intended and never settled is unknown."""

ROWS: Final = 65_536

VALUE_BYTES: Final = 32
KEY_BYTES: Final = 16
_ERROR_BYTES: Final = 40

LEDGER_COLUMNS: Final = (
    SlotColumn("sequence", "q"),
    SlotColumn("partition", "i"),
    SlotColumn("key", f"{KEY_BYTES}s"),
    SlotColumn("value", f"{VALUE_BYTES}s"),
    SlotColumn("value_bytes", "i"),
    SlotColumn("value_crc32", "q"),
    SlotColumn("sent_us", "q"),
    SlotColumn("settled_us", "q", "zero"),
    SlotColumn("offset", "q", "plus_one"),
    SlotColumn("error_code", "i", "zero"),
    SlotColumn("error", f"{_ERROR_BYTES}s"),
)

READ_COLUMNS: Final = (
    SlotColumn("topic", "i"),
    SlotColumn("partition", "i"),
    SlotColumn("offset", "q"),
    SlotColumn("leader_epoch", "i", "plus_one"),
    SlotColumn("key", f"{KEY_BYTES}s"),
    SlotColumn("value", f"{VALUE_BYTES}s"),
    SlotColumn("value_bytes", "i", "plus_one"),
    SlotColumn("value_crc32", "q", "plus_one"),
    SlotColumn("timestamp_ms", "q", "plus_one"),
    SlotColumn("read_us", "q"),
    SlotColumn("poll", "q"),
    SlotColumn("position_before", "q", "plus_one"),
    SlotColumn("position_after", "q"),
    SlotColumn("high_watermark", "q", "plus_one"),
)

Seal = Callable[[Slots], None]


class _LedgerFile:
    """One file of a ledger, with its columns cached."""

    __slots__ = (
        "bytes",
        "crc",
        "error_at",
        "error_code",
        "key_at",
        "mapped",
        "marks",
        "offset",
        "partition",
        "sent",
        "sequence",
        "settled",
        "slots",
        "unsettled",
        "value_at",
    )

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.mapped = slots.mapped
        self.marks = slots.marks
        self.sequence = slots.column("sequence")
        self.partition = slots.column("partition")
        self.bytes = slots.column("value_bytes")
        self.crc = slots.column("value_crc32")
        self.sent = slots.column("sent_us")
        self.settled = slots.column("settled_us")
        self.offset = slots.column("offset")
        self.error_code = slots.column("error_code")
        self.key_at = slots.text_start("key")
        self.value_at = slots.text_start("value")
        self.error_at = slots.text_start("error")
        self.unsettled = slots.capacity


class LedgerJournal:
    """The sends of one producer. `constants` are the columns with the same value for all of them."""

    def __init__(
        self, folder: Path, seal: Seal, *, producer: str, rows: int = ROWS, **constants: Any
    ) -> None:
        self._folder = folder
        self._seal = seal
        self._constants = {"producer": producer, **constants}
        self._rows = rows
        self._next = 0
        self._files: dict[int, _LedgerFile] = {}
        self._open(0)

    @property
    def next_sequence(self) -> int:
        return self._next

    def intend(self, partition: int, key: bytes, value: bytes, *, size: int, crc: int, now_us: int) -> int:
        """Record a send before it is made. Returns the number to pass to `settle`. `value` is its id."""
        sequence = self._next
        number, row = divmod(sequence, self._rows)
        if not row and number:
            self._open(number)
        file = self._files[number]
        file.sequence[row] = sequence
        file.partition[row] = partition
        file.bytes[row] = size
        file.crc[row] = crc
        file.sent[row] = now_us
        if key:
            at = file.key_at + row * KEY_BYTES
            file.mapped[at : at + len(key)] = key
        at = file.value_at + row * VALUE_BYTES
        file.mapped[at : at + len(value)] = value
        file.marks[row] = INTENDED
        self._next = sequence + 1
        return sequence

    def settle(
        self, sequence: int, outcome: int, offset: int, now_us: int, *, code: int = 0, error: str = ""
    ) -> None:
        """Record the outcome of a send. A negative offset means none. Settling twice changes nothing."""
        number, row = divmod(sequence, self._rows)
        file = self._files.get(number)
        if file is None or file.marks[row] != INTENDED:
            return
        file.settled[row] = now_us
        if offset >= 0:
            file.offset[row] = offset + 1
        if code:
            file.error_code[row] = code
            text = error.encode("ascii", "replace")[:_ERROR_BYTES]
            at = file.error_at + row * _ERROR_BYTES
            file.mapped[at : at + len(text)] = text
        file.marks[row] = outcome
        file.unsettled -= 1
        if not file.unsettled:
            self._hand_on(number)

    def close(self) -> None:
        """Pass on all files. Sends that are not settled stay unknown."""
        for number in sorted(self._files):
            self._hand_on(number)

    def _open(self, number: int) -> None:
        path = self._folder / f"ledger-{self._constants['producer']}-{number:06d}{SUFFIX}"
        slots = Slots.create(path, "ledger", LEDGER_COLUMNS, self._constants, self._rows)
        self._files[number] = _LedgerFile(slots)

    def _hand_on(self, number: int) -> None:
        self._seal(self._files.pop(number).slots)


class _ReadsFile:
    """One file of a consumer's reads, with its columns cached."""

    __slots__ = (
        "after",
        "before",
        "bytes",
        "crc",
        "epoch",
        "key_at",
        "mapped",
        "marks",
        "offset",
        "partition",
        "poll",
        "read",
        "slots",
        "timestamp",
        "topic",
        "value_at",
        "watermark",
    )

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.mapped = slots.mapped
        self.marks = slots.marks
        self.topic = slots.column("topic")
        self.partition = slots.column("partition")
        self.offset = slots.column("offset")
        self.epoch = slots.column("leader_epoch")
        self.bytes = slots.column("value_bytes")
        self.crc = slots.column("value_crc32")
        self.timestamp = slots.column("timestamp_ms")
        self.read = slots.column("read_us")
        self.poll = slots.column("poll")
        self.before = slots.column("position_before")
        self.after = slots.column("position_after")
        self.watermark = slots.column("high_watermark")
        self.key_at = slots.text_start("key")
        self.value_at = slots.text_start("value")


class ReadsJournal:
    """The reads of one consumer. `topics` are named once, rows refer to them by number."""

    def __init__(
        self,
        folder: Path,
        seal: Seal,
        *,
        consumer: str,
        topics: list[str],
        rows: int = ROWS,
        **constants: Any,
    ) -> None:
        self._folder = folder
        self._seal = seal
        self._constants = {"consumer": consumer, "topic": topics, **constants}
        self._rows = rows
        self._number = 0
        self._row = 0
        self._file = self._open()
        self._polls = -1
        self._now_us = 0
        self.count = 0

    def polled(self, now_us: int) -> None:
        """A poll has returned; the records recorded next belong to it."""
        self._polls += 1
        self._now_us = now_us

    def record(
        self,
        topic: int,
        partition: int,
        offset: int,
        *,
        epoch: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        position: int,
        high_watermark: int,
        name: str | None = None,
        size: int = -1,
    ) -> None:
        """Record one read, with the expected offset. Unknown numbers are -1. Without the value, its id may be
        given as `name`, and its size."""
        row = self._row
        if row == self._rows:
            self.rotate()
            row = 0
        file = self._file
        file.topic[row] = topic
        file.partition[row] = partition
        file.offset[row] = offset
        file.epoch[row] = epoch + 1
        file.timestamp[row] = timestamp_ms + 1
        file.read[row] = self._now_us
        file.poll[row] = self._polls
        file.before[row] = position + 1
        file.after[row] = offset + 1
        file.watermark[row] = high_watermark + 1
        if key:
            text = plain(key[:KEY_BYTES])
            at = file.key_at + row * KEY_BYTES
            file.mapped[at : at + len(text)] = text
        if value is not None:
            file.bytes[row] = len(value) + 1
            file.crc[row] = crc32(value) + 1
            text = plain(value[: VALUE_BYTES + 1].partition(b" ")[0][:VALUE_BYTES])
            at = file.value_at + row * VALUE_BYTES
            file.mapped[at : at + len(text)] = text
        elif name is not None:
            file.bytes[row] = size + 1
            text = name.encode("ascii")
            at = file.value_at + row * VALUE_BYTES
            file.mapped[at : at + len(text)] = text
        file.marks[row] = OK
        self._row = row + 1
        self.count += 1

    def rotate(self, topics: list[str] | None = None) -> None:
        """Go on in a new file, if given with other topics."""
        if topics is not None:
            self._constants["topic"] = topics
        self._number += 1
        file = self._open()
        self._seal(self._file.slots)
        self._file = file
        self._row = 0

    @property
    def slots(self) -> Slots:
        """The file that is being written."""
        return self._file.slots

    def close(self) -> None:
        """Pass on the last file."""
        self._seal(self._file.slots)

    def _open(self) -> _ReadsFile:
        path = self._folder / f"reads-{self._constants['consumer']}-{self._number:06d}{SUFFIX}"
        return _ReadsFile(Slots.create(path, "reads", READ_COLUMNS, self._constants, self._rows))


def plain(text: bytes) -> bytes:
    """Text as journals hold it: ASCII. Other programs may write any bytes to the topic."""
    if text.isascii() and b"\0" not in text:
        return text
    return text.decode("ascii", "replace").encode("ascii", "replace").replace(b"\0", b"?")
