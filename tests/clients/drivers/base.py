"""One small interface over every Python client, so that a test says once what must hold for all of them.

A driver hides how a client is called, never how it behaves: settings go to the client as they are, errors
come back with the code that the client reports, and nothing is retried here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

Headers = tuple[tuple[str, bytes | None], ...]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Outgoing:
    """A record to send. Without a timestamp the client takes its clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


@dataclass(frozen=True)
class Incoming:
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int

    def carries(self, sent: Outgoing) -> bool:
        """Whether this is the record that was sent, in everything the sender decided."""
        return (
            (self.partition, self.value, self.key, self.headers)
            == (sent.partition, sent.value, sent.key, sent.headers)
        ) and sent.timestamp_ms in (None, self.timestamp_ms)


class Refused(Exception):
    """A client reported an error. Codes below zero are its own, the others Kafka's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class Reader(ABC):
    """A consumer with assigned partitions and no group."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Incoming]:
        """What arrives within this time, perhaps nothing."""

    @abstractmethod
    def close(self) -> None: ...

    def read(self, count: int, patience_seconds: float = 20.0) -> list[Incoming]:
        """The next `count` records, or fewer when patience ends."""
        records: list[Incoming] = []
        deadline = time.monotonic() + patience_seconds
        while len(records) < count and time.monotonic() < deadline:
            records += self.poll(0.25)
        return records

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Driver(ABC):
    """A client of one kind, pointed at one cluster."""

    name: str
    sends_null_headers = True

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        acks: int = -1,
        codec: str = "none",
        idempotent: bool = False,
        linger_ms: int = 0,
        request_bytes_max: int = 1_000_000,
    ) -> list[int | None]:
        """Send all records, wait for all, and return their offsets, which acks=0 leaves unknown (None)."""

    @abstractmethod
    def reader(
        self,
        topic: str,
        offsets: Mapping[int, int],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        reset: str = "none",
    ) -> Reader:
        """A consumer that starts at these offsets; `reset` is none, earliest or latest."""

    @abstractmethod
    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Beginning and end offset."""

    @abstractmethod
    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset with this timestamp or a later one, None if there is none."""

    def read(self, topic: str, first: int, count: int, partition: int = 0) -> list[Incoming]:
        with self.reader(topic, {partition: first}) as reader:
            return reader.read(count)
