"""Records the events of a broker in its event files.

Rules of the file:

* Recording never harms the broker. When a file cannot be written (full disk, no permission) recording ends
  with one log message; nothing is raised, and no events accumulate in memory.
* An event is passed to the operating system before ``record`` returns, so it survives ``kill -9``. (That
  costs a microsecond or two more than buffering, but the last events before a crash matter most.)
* The exception is the high watermark, which moves thousands of times a second: only the newest move of each
  partition is held, and written with the next flush. Held moves are written before any other event of that
  partition or of the whole broker. Rows of *different* partitions may be out of order within one flush
  interval; their ``time_ms`` is right: that of the latest move in the row. The first move was less than a
  flush interval earlier.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.core.events import HighWatermarkAdvanced
from tidelog.core.types import BrokerId, Millis, Offset, TopicPartition
from tidelog.evidence.event_schema import to_row
from tidelog.evidence.journals.event_files import create_file, delete_oldest, event_path
from tidelog.evidence.process_events import RecordedEvent

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class _HeldWatermark:
    """The moves of one partition's high watermark since the last flush: the first and the latest."""

    before: Offset
    latest: HighWatermarkAdvanced
    since_ms: Millis
    time_ms: Millis


class EventRecorder:
    """The event files of one broker process.

    There are two clocks. ``clock`` is the wall clock, in ms since 1970: it orders the rows of several
    brokers. The ``now_ms`` of a call is the broker's monotonic time; it determines when the next flush is
    due. The owner of the recorder also calls ``flush`` about every ``flush_interval_ms``, for the last
    watermarks before a time without events.
    """

    __slots__ = (
        "_broker",
        "_clock",
        "_directory",
        "_fd",
        "_file_bytes",
        "_file_bytes_max",
        "_flush_due",
        "_held",
        "_log",
        "_part",
        "_process_start_ms",
        "_sequence",
        "_total_bytes_max",
        "flush_interval_ms",
    )

    def __init__(
        self,
        directory: Path,
        broker: BrokerId,
        clock: Callable[[], Millis],
        *,
        flush_interval_ms: Millis = 250,
        file_bytes_max: int = 16 * 1024 * 1024,
        total_bytes_max: int = 256 * 1024 * 1024,
    ) -> None:
        self.flush_interval_ms = flush_interval_ms
        self._directory = directory
        self._broker = broker
        self._clock = clock
        self._file_bytes_max = file_bytes_max
        self._total_bytes_max = total_bytes_max
        self._log = logging.getLogger("tidelog.evidence")
        self._sequence = 0
        self._part = 0
        self._file_bytes = 0
        self._held: dict[TopicPartition, _HeldWatermark] = {}
        self._process_start_ms = clock()
        self._flush_due: Millis = 0
        self._fd: int | None = None
        try:
            self._open_first()
        except OSError as error:
            self._give_up(error)

    @property
    def active(self) -> bool:
        """False after ``close``, or once a write has failed."""
        return self._fd is not None

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return event_path(self._directory, self._broker, self._process_start_ms, self._part)

    # ------------------------------------------------------------ recording

    def record(self, event: RecordedEvent, now_ms: Millis) -> None:
        if self._fd is None:
            return
        if type(event) is HighWatermarkAdvanced:
            held, time_ms = self._held.get(event.tp), self._clock()
            if held is not None and time_ms - held.since_ms >= self.flush_interval_ms:
                # The process was stopped for a while. Write the moves before the stop as a row of their own.
                self._write(self._held_line(held))
                held = None
            if held is None:
                self._held[event.tp] = _HeldWatermark(event.before, event, time_ms, time_ms)
            else:
                held.latest = event
                held.time_ms = time_ms
            if now_ms >= self._flush_due:
                self._flush_due = now_ms + self.flush_interval_ms
                self._write(self._held_lines())
            return
        tp: TopicPartition | None = getattr(event, "tp", None)
        lines = b""
        if tp is None:
            lines = self._held_lines()
        elif tp in self._held:
            lines = self._held_line(self._held.pop(tp))
        self._write(lines + self._line(event, self._clock()))

    def flush(self) -> None:
        """Write the latest high watermarks."""
        if self._fd is not None and self._held:
            self._write(self._held_lines())

    def close(self) -> None:
        self.flush()
        self._close_file()

    # ------------------------------------------------------------ lines

    def _held_lines(self) -> bytes:
        held = sorted(self._held.values(), key=lambda watermark: watermark.time_ms)
        self._held.clear()
        return b"".join(map(self._held_line, held))

    def _held_line(self, held: _HeldWatermark) -> bytes:
        return self._line(replace(held.latest, before=held.before), held.time_ms)

    def _line(self, event: RecordedEvent, time_ms: Millis) -> bytes:
        sequence = self._sequence
        self._sequence += 1
        row = to_row(event, time_ms, self._broker, process_start_ms=self._process_start_ms, sequence=sequence)
        return _encode(row).encode() + b"\n"

    # ------------------------------------------------------------ files

    def _open_first(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        while self._fd is None:
            try:
                self._fd = create_file(self.path)
            except FileExistsError:
                # The previous process started in the same millisecond, or the clock was set back.
                self._process_start_ms += 1
        self._keep_within_bound()

    def _write(self, data: bytes) -> None:
        try:
            if self._file_bytes and self._file_bytes + len(data) > self._file_bytes_max:
                self._open_next()
            self._write_whole_lines(data)
        except OSError as error:
            self._give_up(error)

    def _write_whole_lines(self, data: bytes) -> None:
        assert self._fd is not None
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            # Try to remove the incomplete line. If that fails, readers skip it.
            whole = data.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._fd, self._file_bytes + whole)
            raise
        self._file_bytes += written

    def _open_next(self) -> None:
        self._close_file()
        self._part += 1
        self._fd = create_file(self.path)
        self._file_bytes = 0
        self._keep_within_bound()

    def _keep_within_bound(self) -> None:
        delete_oldest(self._directory, self._broker, self._total_bytes_max - self._file_bytes_max)

    def _close_file(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _give_up(self, error: OSError) -> None:
        self._log.error(
            "stopped recording events in %s: %s. The broker goes on; to record again, make room or mend the "
            "directory, then restart it",
            self._directory,
            error.strerror or error,
        )
        self._held.clear()
        with suppress(OSError):
            self._close_file()
