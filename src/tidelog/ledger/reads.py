"""The reads of one watched consumer on disk, as they reach the application.

A read is recorded before the application gets the record. Where the offset does not follow on the one before,
the position is not known: the group may have moved the partition, or the application itself.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from tidelog.evidence.journals.clients import ReadsJournal
from tidelog.evidence.journals.slots import Ending, Slots
from tidelog.ledger.continuity import Continuity
from tidelog.ledger.folder import opened, why
from tidelog.ledger.identity import content_name, origin_of

_log = logging.getLogger("tidelog.ledger")
_TOPICS_MAX: Final = 12
"""In one file: their names must fit its first bytes."""


class Read(NamedTuple):
    """A record as a library gave it; unknown numbers are -1."""

    topic: str
    partition: int
    offset: int
    epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Any


class ReadRecorder:
    def __init__(self, folder: Path, *, name: str, group: str | None, rows: int, seconds: float) -> None:
        self.continuity = Continuity()
        self.stopped = ""
        """Why nothing is recorded any more."""
        self._consumer = f"{name}-{secrets.token_hex(8)}"
        self._group = group
        self._rows = rows
        self._seconds = seconds
        self._until = 0.0
        self._topics: list[str] = []
        self._positions: dict[tuple[str, int], int] = {}
        self._journal: ReadsJournal | None = None
        self._folder = folder
        try:
            self._folder = opened(folder)
        except OSError as error:
            self._stop(error)

    def record(self, reads: Iterable[Read]) -> None:
        """The records of one poll."""
        now_us = time.time_ns() // 1000
        started = False
        for read in reads:
            origin, crc = origin_of(read.headers), crc32c(read.value or b"")
            self.continuity.note(origin, read.topic, read.partition, read.offset, crc)
            if self.stopped:
                continue
            try:
                topic = self._number_of(read.topic)
                journal = self._journal
                assert journal is not None
                if not started:
                    journal.polled(now_us)
                    started = True
                place = (read.topic, read.partition)
                follows = self._positions.get(place) == read.offset
                name = None if origin is None else origin.name(crc)
                if name is None and read.value is not None:
                    name = content_name(len(read.value), crc)
                journal.record(
                    topic,
                    read.partition,
                    read.offset,
                    epoch=read.epoch,
                    timestamp_ms=read.timestamp_ms,
                    key=read.key,
                    value=None,
                    size=-1 if read.value is None else len(read.value),
                    position=read.offset if follows else -1,
                    high_watermark=-1,
                    name=name,
                )
                self._positions[place] = read.offset + 1
            except Exception as error:
                self._stop(error)

    def _number_of(self, topic: str) -> int:
        """The number of a topic in the file, which may be a new one."""
        journal, topics = self._journal, self._topics
        due = time.monotonic() > self._until
        if journal is not None and topic in topics and not due:
            return topics.index(topic)
        if topic not in topics:
            topics = [topic] if len(topics) == _TOPICS_MAX else [*topics, topic]
        if journal is None:
            self._journal = ReadsJournal(
                self._folder,
                _finish,
                consumer=self._consumer,
                topics=topics,
                rows=self._rows,
                group=self._group,
                zone="",
            )
        else:
            journal.rotate(topics)
        self._topics = topics
        self._until = time.monotonic() + self._seconds
        return topics.index(topic)

    def _stop(self, error: Exception) -> None:
        self.stopped = f"{self._folder}: {why(error)}"
        _log.warning("recording of reads has stopped, the application goes on: %s", self.stopped)
        if self._journal is not None:
            self._journal.slots.ending = Ending.STOPPED
        self._journal = None

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _finish(slots: Slots) -> None:
    slots.ending = Ending.FINISHED
