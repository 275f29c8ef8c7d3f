"""Produce and Fetch for one partition: most messages of a broker, read and written without objects between.

Small requests come thousands of times a second, and nearly all are for one partition: a client's Produce,
and within its session a follower's Fetch. The codecs make five objects of such a message. These functions
know the layout of exactly this case and take it in two or three `struct` calls.

A reader returns None for everything else, malformed bytes included: the caller then asks the codec, which
decides. Tests compare them with the codec, byte for byte.

Produce is known in versions 3 to 9, Fetch in version 12 as brokers send it to each other: the client id is
`CLIENT_ID`, the request names one partition whose session is open, and the answer has no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import Buffer, encode_uvarint, read_uvarint

CLIENT_ID: Final = "tidelog"
"""The client id of every broker towards others."""
FETCH_VERSION: Final = 12
NAME_BYTES_MAX: Final = 126
"""In flexible versions the length of a longer name would take a second byte."""
_LENGTH_MAX: Final = NAME_BYTES_MAX + 1
"""Flexible versions have the length plus one."""
_COPY_MAX: Final = 1024
"""As in the encoders: more bytes than these are not copied, but become buffers of their own."""
_MALFORMED = (IndexError, ProtocolError, UnicodeDecodeError)
_made: Any = tuple.__new__
"""Makes a named tuple without a call of a Python function."""

# ---------------------------------------------------------------- Produce


class ProduceOfOne(NamedTuple):
    """A Produce."""

    version: int
    correlation_id: int
    client_id: str | None
    acks: int
    timeout_ms: int
    topic: str
    partition: int
    records: memoryview


_PRODUCE: Final = 0
_FLEXIBLE: Final = 9
_HEADER = Struct(">hhih")
_HEADER_SIZE: Final = _HEADER.size
_TOPIC = Struct(">hhiih")
"""No transactional id, acks, time-out, one topic, the length of its name."""
_PART = Struct(">iii")
"""One partition, its number, the length of the records."""
_FLEXIBLE_TOPIC = Struct(">BBhiBB")
"""The same after no tagged fields."""
_FLEXIBLE_PART = Struct(">Bi")
_SMALLEST: Final = 48
_NO_TAGS: Final = b"\0\0\0"


def read_produce(frame: bytearray) -> ProduceOfOne | None:
    size = len(frame)
    if size < _SMALLEST:
        return None
    api, version, correlation_id, client = _HEADER.unpack_from(frame)
    at = _HEADER_SIZE if client < 0 else _HEADER_SIZE + client
    if api != _PRODUCE or not 3 <= version <= _FLEXIBLE or at + 26 > size:
        return None
    try:
        if version == _FLEXIBLE:
            tags, transaction, acks, timeout_ms, topics, length = _FLEXIBLE_TOPIC.unpack_from(frame, at)
            name = at + 10
            end = name + length - 1
            if tags or transaction or topics != 2 or not 2 <= length <= _LENGTH_MAX or end + 5 > size:
                return None
            parts, partition = _FLEXIBLE_PART.unpack_from(frame, end)
            count, start = read_uvarint(frame, end + 5)
            stop = start + count - 1
            if parts != 2 or count < 2 or frame[stop:] != _NO_TAGS:
                return None
        else:
            transaction, acks, timeout_ms, topics, length = _TOPIC.unpack_from(frame, at)
            name = at + 14
            end = name + length
            if transaction != -1 or topics != 1 or not 1 <= length <= NAME_BYTES_MAX or end + 12 > size:
                return None
            parts, partition, count = _PART.unpack_from(frame, end)
            start = end + 12
            stop = start + count
            if parts != 1 or count < 1 or stop != size:
                return None
        client_id = None if client < 0 else frame[_HEADER_SIZE:at].decode()
        topic = frame[name:end].decode()
    except _MALFORMED:
        return None
    records = memoryview(frame)[start:stop]
    read = (version, correlation_id, client_id, acks, timeout_ms, topic, partition, records)
    one: ProduceOfOne = _made(ProduceOfOne, read)
    return one


_PRODUCED = Struct(">iiih")
_PRODUCED_FLEXIBLE = Struct(">iiBBB")
_PRODUCED_PART = {
    version: Struct(layout)
    for versions, layout in (((3, 4), ">iihqqi"), ((5, 6, 7), ">iihqqqi"), ((8,), ">iihqqqihi"))
    for version in versions
}
_PRODUCED_FLEXIBLE_PART = Struct(">BihqqqBBBBiB")


def write_produced(  # noqa: PLR0917  # called once for each small request: keywords cost as much as the rest
    version: int,
    correlation_id: int,
    topic: str,
    partition: int,
    error: int,
    base_offset: int,
    log_start: int,
) -> bytes:
    """The answer without an append time, nor a message about an error."""
    name = topic.encode()
    length = len(name)
    if version == _FLEXIBLE:
        part = _PRODUCED_FLEXIBLE_PART
        head = _PRODUCED_FLEXIBLE.pack(7 + length + part.size, correlation_id, 0, 2, length + 1)
        return head + name + part.pack(2, partition, error, base_offset, -1, log_start, 1, 0, 0, 0, 0, 0)
    part = _PRODUCED_PART[version]
    head = _PRODUCED.pack(10 + length + part.size, correlation_id, 1, length)
    if version >= 8:
        end = part.pack(1, partition, error, base_offset, -1, log_start, 0, -1, 0)
    elif version >= 5:
        end = part.pack(1, partition, error, base_offset, -1, log_start, 0)
    else:
        end = part.pack(1, partition, error, base_offset, -1, 0)
    return head + name + end


# ---------------------------------------------------------------- Fetch between brokers


class FetchOfOne(NamedTuple):
    """A Fetch, with the names of the codec's objects."""

    correlation_id: int
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    topic: str
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    log_start_offset: int
    partition_max_bytes: int


class FetchedOne(NamedTuple):
    """The answer to a Fetch."""

    correlation_id: int
    session_id: int
    topic: str
    partition: int
    high_watermark: int
    log_start_offset: int
    records: memoryview


_CLIENT = CLIENT_ID.encode()
_FETCH_START: Final = b"\0\1\0\14"
_CLIENT_START: Final = len(_CLIENT).to_bytes(2, "big") + _CLIENT + b"\0"
_FETCH = Struct(f">4si{len(_CLIENT_START)}siiiibiiBB")
_SIZE_AND_FETCH = Struct(">i" + _FETCH.format[1:])
_FETCH_PART = Struct(">Biiqiqi5s")
_FETCH_NAME: Final = _FETCH.size
_FETCH_PART_SIZE: Final = _FETCH_PART.size
_FETCH_SIZE: Final = _FETCH_NAME + _FETCH_PART_SIZE
_FETCH_END: Final = b"\0\0\1\1\0"
"""No tagged fields of the partition nor of the topic, nothing forgotten, no rack, no tagged fields."""


def write_fetch(  # noqa: PLR0917
    correlation_id: int,
    replica: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session: int,
    epoch: int,
    topic: str,
    partition: int,
    leader_epoch: int,
    offset: int,
    log_start: int,
    partition_bytes: int,
) -> bytes:
    name = topic.encode()
    length = len(name)
    start = (_FETCH_SIZE + length, _FETCH_START, correlation_id, _CLIENT_START)
    limits = (replica, max_wait_ms, min_bytes, max_bytes, 0)
    return (
        _SIZE_AND_FETCH.pack(*start, *limits, session, epoch, 2, length + 1)
        + name
        + _FETCH_PART.pack(2, partition, leader_epoch, offset, -1, log_start, partition_bytes, _FETCH_END)
    )


def read_fetch(frame: bytearray) -> FetchOfOne | None:
    size = len(frame)
    if size <= _FETCH_SIZE or not frame.startswith(_FETCH_START):
        return None
    (
        _,
        correlation_id,
        client,
        replica,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session,
        epoch,
        topics,
        length,
    ) = _FETCH.unpack_from(frame)
    end = _FETCH_NAME + length - 1
    if client != _CLIENT_START or isolation or topics != 2 or not 1 <= length <= _LENGTH_MAX:
        return None
    if end + _FETCH_PART_SIZE != size:
        return None
    parts, partition, leader_epoch, offset, fetched_epoch, log_start, partition_bytes, rest = (
        _FETCH_PART.unpack_from(frame, end)
    )
    if parts != 2 or fetched_epoch != -1 or rest != _FETCH_END:
        return None
    try:
        topic = frame[_FETCH_NAME:end].decode()
    except UnicodeDecodeError:
        return None
    limits = (correlation_id, replica, max_wait_ms, min_bytes, max_bytes, session, epoch)
    one: FetchOfOne = _made(
        FetchOfOne, (*limits, topic, partition, leader_epoch, offset, log_start, partition_bytes)
    )
    return one


_FETCHED = Struct(">ibihiBB")
_SIZE_AND_FETCHED = Struct(">iibihiBB")
_FETCHED_PART = Struct(">bihqqqbi")
_FETCHED_NAME: Final = _FETCHED.size
_FETCHED_PART_SIZE: Final = _FETCHED_PART.size
_SMALLEST_ANSWER: Final = _FETCHED_NAME + _FETCHED_PART_SIZE + 4


def write_fetched(  # noqa: PLR0917
    correlation_id: int,
    session: int,
    topic: str,
    partition: int,
    high_watermark: int,
    log_start: int,
    records: Sequence[Buffer],
    records_bytes: int,
) -> list[Buffer]:
    name = topic.encode()
    length = len(name)
    count = encode_uvarint(records_bytes + 1)
    size = _SMALLEST_ANSWER + length + len(count) + records_bytes - 1
    head = (
        _SIZE_AND_FETCHED.pack(size, correlation_id, 0, 0, 0, session, 2, length + 1)
        + name
        + _FETCHED_PART.pack(2, partition, 0, high_watermark, high_watermark, log_start, 0, -1)
        + count
    )
    if records_bytes > _COPY_MAX:
        return [head, *records, _NO_TAGS]
    return [b"".join((head, *records, _NO_TAGS))]


def read_fetched(frame: bytearray) -> FetchedOne | None:
    size = len(frame)
    if size < _SMALLEST_ANSWER:
        return None
    correlation_id, tags, _throttled, error, session, topics, length = _FETCHED.unpack_from(frame)
    end = _FETCHED_NAME + length - 1
    records_at = end + _FETCHED_PART_SIZE
    if tags or error or topics != 2 or not 1 <= length <= _LENGTH_MAX or records_at + 4 > size:
        return None
    parts, partition, error, high_watermark, _stable, log_start, aborted, _preferred = (
        _FETCHED_PART.unpack_from(frame, end)
    )
    try:
        count, start = read_uvarint(frame, records_at)
        topic = frame[_FETCHED_NAME:end].decode()
    except _MALFORMED:
        return None
    stop = start + count - 1
    if parts != 2 or error or aborted or count < 1 or stop + 3 != size or frame[stop:] != _NO_TAGS:
        return None
    records = memoryview(frame)[start:stop]
    one: FetchedOne = _made(
        FetchedOne, (correlation_id, session, topic, partition, high_watermark, log_start, records)
    )
    return one
