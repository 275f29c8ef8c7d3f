"""Kafka's protocol by hand over a plain socket: for what no well-behaved client sends.

Written with `struct` alone, from the protocol's description, and sharing nothing with tidelog's own codec.
Only a few non-flexible versions are spoken, those that Kafka 2.7 and 4.x both understand.
"""

from __future__ import annotations

import io
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from crc32c import crc32c

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 7, 4, 4

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = 0, 1, 2, 3
NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION = 6, 10, 21, 35
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_RECORD = 45, 47, 87

HEADER_BYTES_OUTSIDE_CRC = 21
BATCH_OVERHEAD_BYTES = 61


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """A socket that sends frames and reads them. Every read has a time limit."""

    def __init__(self, address: tuple[str, int], patience_seconds: float = 20.0) -> None:
        self.socket = socket.create_connection(address, timeout=patience_seconds)
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Bytes as they are. A broker may close before it has read all of them: that is its right."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def request(self, key: int, version: int, body: bytes) -> int:
        """Send one framed request with header version 1 and return its correlation id."""
        self._correlation += 1
        self.send(frame(key, version, self._correlation, body))
        return self._correlation

    def response(self) -> tuple[int, Fields]:
        """The next frame: its correlation id and its body."""
        (length,) = struct.unpack(">i", self._exactly(4))
        fields = Fields(self._exactly(length))
        return fields.int32(), fields

    def ask(self, key: int, version: int, body: bytes) -> Fields:
        sent = self.request(key, version, body)
        answered, fields = self.response()
        assert answered == sent
        return fields

    def is_closed_by_peer(self) -> bool:
        """Wait until the broker says something or hangs up, and tell which."""
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), 1 << 16))
            except ConnectionResetError:
                raise Closed from None
            if not part:
                raise Closed
            parts += part
        return bytes(parts)


class Fields:
    """A body read field by field."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def _unpack(self, layout: str) -> Any:
        return struct.unpack(layout, self._stream.read(struct.calcsize(layout)))[0]

    def int8(self) -> int:
        return int(self._unpack(">b"))

    def int16(self) -> int:
        return int(self._unpack(">h"))

    def int32(self) -> int:
        return int(self._unpack(">i"))

    def int64(self) -> int:
        return int(self._unpack(">q"))

    def string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._stream.read(length).decode()

    def blob(self) -> bytes:
        return self._stream.read(max(0, self.int32()))

    def rest(self) -> bytes:
        return self._stream.read()


# ---------------------------------------------------------------- requests


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def frame(key: int, version: int, correlation: int, body: bytes) -> bytes:
    message = struct.pack(">hhi", key, version, correlation) + string("raw") + body
    return struct.pack(">i", len(message)) + message


def produce_body(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> bytes:
    return (
        string(None)
        + struct.pack(">hii", acks, 20_000, 1)
        + string(topic)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )


def fetch_body(
    topic: str, offset: int, partition: int = 0, wait_ms_max: int = 500, bytes_min: int = 1
) -> bytes:
    return (
        struct.pack(">iiiibi", -1, wait_ms_max, bytes_min, 50_000_000, 0, 1)
        + string(topic)
        + struct.pack(">iiqi", 1, partition, offset, 1_000_000)
    )


def metadata_body(topic: str, may_create: bool = False) -> bytes:
    return struct.pack(">i", 1) + string(topic) + struct.pack(">b", may_create)


# ---------------------------------------------------------------- answers


@dataclass(frozen=True)
class Produced:
    error: int
    base_offset: int


def produced(fields: Fields) -> Produced:
    """The answer for the only partition of a Produce request."""
    assert fields.int32() == 1
    fields.string()
    assert fields.int32() == 1
    fields.int32()
    return Produced(fields.int16(), fields.int64())


@dataclass(frozen=True)
class Fetched:
    error: int
    high_watermark: int
    records: bytes


def fetched(fields: Fields) -> Fetched:
    """The answer for the only partition of a Fetch request."""
    fields.int32()  # throttle
    assert fields.int32() == 1
    fields.string()
    assert fields.int32() == 1
    fields.int32()
    error, high_watermark = fields.int16(), fields.int64()
    fields.int64()  # last stable offset
    for _ in range(max(0, fields.int32())):  # aborted transactions
        fields.int64(), fields.int64()
    return Fetched(error, high_watermark, fields.blob())


@dataclass(frozen=True)
class Metadata:
    """What one broker knows: where each broker is, and who leads and who is in sync for a topic."""

    brokers: dict[int, tuple[str, int]]
    controller: int
    leaders: dict[int, int]
    """Only partitions that have one."""
    isr: dict[int, set[int]]


def metadata(address: tuple[str, int], topic: str) -> Metadata:
    with Connection(address) as connection:
        fields = connection.ask(METADATA, METADATA_VERSION, metadata_body(topic))
    fields.int32()  # throttle
    brokers: dict[int, tuple[str, int]] = {}
    for _ in range(fields.int32()):
        number, host, port = fields.int32(), fields.string(), fields.int32()
        fields.string()  # rack
        brokers[number] = (host or "", port)
    fields.string()  # cluster id
    answer = Metadata(brokers, fields.int32(), {}, {})
    for _ in range(fields.int32()):
        fields.int16(), fields.string(), fields.int8()
        for _ in range(fields.int32()):
            fields.int16()  # an error that may be about a replica only
            partition, leader = fields.int32(), fields.int32()
            _, isr = ({fields.int32() for _ in range(fields.int32())} for _ in ("replicas", "isr"))
            answer.isr[partition] = isr
            if leader >= 0:
                answer.leaders[partition] = leader
    return answer


def leader_address(any_broker: tuple[str, int], topic: str, partition: int = 0) -> tuple[str, int]:
    known = metadata(any_broker, topic)
    return known.brokers[known.leaders[partition]]


# ---------------------------------------------------------------- record batches


def varint(number: int) -> bytes:
    """Zigzag, seven bits at a time."""
    number = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def batch(
    values: Sequence[bytes],
    *,
    attributes: int = 0,
    magic: int = 2,
    crc: int | None = None,
    count: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int | None = None,
) -> bytes:
    """A magic-2 batch of records without keys; what is given replaces what would be right.

    `producer` is producer id, producer epoch and base sequence.
    """
    now = int(time.time() * 1000) if timestamp is None else timestamp
    records = bytearray()
    for number, value in enumerate(values):
        record = b"\0" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    checked = (
        struct.pack(">hiqqqhi", attributes, len(values) - 1, now, now, *producer)
        + struct.pack(">i", len(values) if count is None else count)
        + records
    )
    crc = crc32c(checked) if crc is None else crc
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, magic, crc) + checked


def codec_ids(records: bytes) -> list[int]:
    """The compression of each whole batch in what was fetched: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    found, position = [], 0
    while position + BATCH_OVERHEAD_BYTES <= len(records):
        (length,) = struct.unpack_from(">i", records, position + 8)
        (attributes,) = struct.unpack_from(">h", records, position + HEADER_BYTES_OUTSIDE_CRC)
        found.append(attributes & 7)
        position += 12 + length
    return found
