"""Writes what happens to a broker into its event files, as it happens.

Rules of the file:

* Recording never hurts the broker. When a file cannot be written (full disk, no permission) recording ends
  with one line in the log; nothing is raised, and nothing piles up.
* What was handed to the operating system survives ``kill -9``. A lone event is handed over at once; in a
  burst, and for high watermarks, ``flush_interval_ms`` may pass first.
* A high watermark moves thousands of times a second, so only the newest move of each partition is held, and
  written with the next flush. Nothing overtakes it: before any other event of that partition, or one that
  concerns the whole broker, what is held goes first. Rows of *different* partitions may be out of order
  within one interval; their ``time_ms`` is right.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidelog.core.events import HighWatermarkAdvanced
from tidelog.core.types import BrokerId, Millis, Offset, TopicPartition
from tidelog.evidence.files import create_file, delete_oldest, event_path
from tidelog.evidence.process import RecordedEvent
from tidelog.evidence.schemas import to_row

BUFFER_BYTES_MAX: Final = 64 * 1024
_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class _HeldWatermark:
    """The moves of one partition's high watermark since the last flush: from here, to the latest."""

    before: Offset
    latest: HighWatermarkAdvanced
    time_ms: Millis


class EventRecorder:
    """The event files of one broker process.

    ``clock`` and every ``now_ms`` are wall-clock milliseconds since 1970: rows of several brokers are put in
    order by them. Whoever owns the recorder calls ``flush`` every ``flush_interval_ms`` or so, for what came
    last before a silence; everything else happens by itself.
    """

    __slots__ = (
        "_broker",
        "_buffer",
        "_buffer_bytes",
        "_clock",
        "_directory",
        "_fd",
        "_file_bytes",
        "_file_bytes_max",
        "_held",
        "_log",
        "_part",
        "_process_start_ms",
        "_sequence",
        "_total_bytes_max",
        "_written_at",
        "flush_interval_ms",
    )

    def __init__(
        self,
        directory: Path,
        broker: BrokerId,
        clock: Callable[[], Millis],
        *,
        flush_interval_ms: Millis = 100,
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
        self._buffer: list[bytes] = []
        self._buffer_bytes = 0
        self._held: dict[TopicPartition, _HeldWatermark] = {}
        self._process_start_ms = clock()
        self._written_at: Millis = 0
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
            held = self._held.get(event.tp)
            if held is None:
                self._held[event.tp] = _HeldWatermark(event.before, event, now_ms)
            else:
                held.latest = event
                held.time_ms = now_ms
            # A clock that was set back makes a negative interval, and must not stop the writing.
            if not 0 <= now_ms - self._written_at < self.flush_interval_ms:
                self.flush()
            return
        tp: TopicPartition | None = getattr(event, "tp", None)
        if tp is None:
            self._release_all()
        elif tp in self._held:
            self._release(self._held.pop(tp))
        self._append(event, now_ms)
        if (
            self._buffer_bytes >= BUFFER_BYTES_MAX
            or not 0 <= now_ms - self._written_at < self.flush_interval_ms
        ):
            self._write()

    def flush(self) -> None:
        """Hand everything to the operating system, the latest high watermarks included."""
        if self._fd is not None:
            self._release_all()
            self._write()

    def close(self) -> None:
        self.flush()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # ------------------------------------------------------------ rows

    def _release_all(self) -> None:
        if self._held:
            held, self._held = self._held, {}
            for watermark in sorted(held.values(), key=lambda watermark: watermark.time_ms):
                self._release(watermark)

    def _release(self, held: _HeldWatermark) -> None:
        self._append(replace(held.latest, before=held.before), held.time_ms)

    def _append(self, event: RecordedEvent, time_ms: Millis) -> None:
        row = to_row(
            event,
            time_ms,
            self._broker,
            process_start_ms=self._process_start_ms,
            sequence=self._sequence,
        )
        self._sequence += 1
        line = _encode(row).encode() + b"\n"
        self._buffer.append(line)
        self._buffer_bytes += len(line)

    # ------------------------------------------------------------ files

    def _open_first(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        while self._fd is None:
            try:
                self._fd = create_file(self.path)
            except FileExistsError:
                self._process_start_ms += (
                    1  # a process that lived for less than a millisecond, or a clock set back
                )
        delete_oldest(self._directory, self._broker, self._total_bytes_max - self._file_bytes_max)

    def _write(self) -> None:
        if self._fd is None or not self._buffer:
            return
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._buffer_bytes = 0
        self._written_at = self._clock()
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
            # Leave no torn line behind, if the disk lets us; a reader would cope with one.
            whole = data.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._fd, self._file_bytes + whole)
            raise
        self._file_bytes += len(data)

    def _open_next(self) -> None:
        assert self._fd is not None
        os.close(self._fd)
        self._fd = None
        self._part += 1
        self._fd = create_file(self.path)
        self._file_bytes = 0
        delete_oldest(self._directory, self._broker, self._total_bytes_max - self._file_bytes_max)

    def _give_up(self, error: OSError) -> None:
        self._log.error(
            "stopped recording events in %s: %s; the broker goes on, free space or mend the directory and "
            "restart it to record again",
            self._directory,
            error.strerror or error,
        )
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._buffer.clear()
        self._buffer_bytes = 0
        self._held.clear()
