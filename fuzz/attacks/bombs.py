"""A few bytes that stand for many, and requests that are simply enormous."""

from __future__ import annotations

import asyncio
from functools import cache
from struct import pack
from typing import Any, Final

from fuzz.attacks import Ground
from fuzz.batches import many_records, one_record
from fuzz.frames import Fate, Frame, How, foresee
from fuzz.vocabulary import GROUPS, STANDING
from tidelog.wire.api import Api, encode_request
from tidelog.wire.api_keys import schema_of
from tidelog.wire.compression import Compression
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.schema import TEXT, Array, Field, Fixed, Kind, Struct, fields_of

_CODECS: Final = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
_CROWD: Final = 50_000
_ANNOUNCED_BYTES: Final = 100 * 1024 * 1024
_ANNOUNCERS: Final = 10
_LARGE_BYTES: Final = 20 * 1024 * 1024
CROWDED: Final = (
    *(Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.OFFSET_COMMIT, Api.OFFSET_FETCH),
    *(Api.JOIN_GROUP, Api.LEAVE_GROUP, Api.SYNC_GROUP, Api.DESCRIBE_GROUPS, Api.LIST_GROUPS),
    *(Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.DELETE_RECORDS, Api.OFFSET_FOR_LEADER_EPOCH),
    *(Api.DESCRIBE_CONFIGS, Api.ALTER_CONFIGS, Api.DESCRIBE_LOG_DIRS, Api.CREATE_PARTITIONS),
    *(Api.DELETE_GROUPS, Api.ELECT_LEADERS, Api.INCREMENTAL_ALTER_CONFIGS, Api.OFFSET_DELETE),
)
"""APIs with an array that one request can make long."""


async def compression(ground: Ground) -> None:
    """Batches of each codec that inflate to many records, or to much of nothing."""
    codec = ground.dice.choice(_CODECS)
    for bomb in (_many_records(codec), _one_record(codec)):
        for topic in STANDING:
            data = PartitionProduceData(index=0, records=bomb)
            request = ProduceRequest(
                acks=-1, timeout_ms=100, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
            )
            frame = _frame(Api.PRODUCE, 7, request)
            await ground.send(f"bomb of {codec.name.lower()}", frame, ground.any_broker())


_many_records = cache(many_records)
_one_record = cache(one_record)


async def announced(ground: Ground) -> None:
    """Connections that announce a hundred megabytes each, send sixty bytes, and stay for a while."""
    writers = []
    for _ in range(_ANNOUNCERS):
        broker = ground.any_broker()
        try:
            _, writer = await asyncio.open_connection(broker.host, broker.port)
        except OSError:
            continue
        writer.write(pack(">i", _ANNOUNCED_BYTES) + bytes(60))
        writers.append(writer)
        ground.tally["announced frame"] += 1
    await asyncio.sleep(1.0)
    for writer in writers:
        writer.transport.abort()


async def crowds(ground: Ground) -> None:
    """A request with tens of thousands of topics, groups, members or settings that do not exist."""
    api = ground.dice.choice(CROWDED)
    known = schema_of(api)
    version = ground.dice.choice(known.versions)
    frame = _frame(api, version, crowd(known.request, version, _CROWD))
    await ground.send(f"crowd in {api.name}", frame, ground.any_broker())


def crowd(cls: type[Any], version: int, count: int) -> Any:
    """A request whose first array has so many elements, no two of them alike."""
    pending = True

    def struct(cls: type[Any], number: int) -> Any:
        values = {
            field.name: value(field, number) for field in fields_of(cls) if field.presence.includes(version)
        }
        # Whatever can be tried without being done is.
        values |= dict.fromkeys(values.keys() & {"validate_only"}, True)
        values |= dict.fromkeys(values.keys() & {"allow_auto_topic_creation"}, False)
        return cls(**values)

    def value(field: Field, number: int) -> Any:
        nonlocal pending
        if isinstance(field.kind, Array):
            length, pending = (count if pending else 1), False
            return [single(field.kind.element, place + number) for place in range(length)]
        return single(field.kind, number)

    def single(kind: Kind, number: int) -> Any:
        if isinstance(kind, Struct):
            return struct(kind.type, number)
        if isinstance(kind, Fixed):
            return bytes(16) if kind.format == "16s" else min(number, 1)
        return f"fuzz-crowd-{number}" if kind == TEXT else b""

    return struct(cls, 0)


async def large_members(ground: Ground) -> None:
    """A member that comes with twenty megabytes of metadata, to a group that is not there."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(_LARGE_BYTES))
    request = JoinGroupRequest(
        group_id=ground.dice.choice(GROUPS),
        session_timeout_ms=1,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[protocol],
    )
    await ground.send("large JoinGroup", _frame(Api.JOIN_GROUP, 3, request), ground.any_broker())


def _frame(api: Api, version: int, request: Any) -> Frame:
    data = b"".join(encode_request(api, version, 0, "fuzz", request))[4:]
    fate, header = foresee(data)
    return Frame(-1, data, How.NOTHING, fate or Fate.ANSWER, header)
