"""What clients name is forgotten with what they named: no part of a broker grows with names it has heard."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections import Counter
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.broker.census import sizes
from tests.broker.in_process import TOPIC, Stage, stage, until
from tests.clients import raw

from tidelog.broker.connection import ClientConnection, Request
from tidelog.core import timers, topic_configs
from tidelog.core.types import TopicPartition
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUNDS = 6


class Stranger:
    """One connection, with a client id of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self._reader = reader
        self.writer = writer
        self._name = name

    async def ask(self, api: Api, version: int, body: Any) -> Any:
        self.writer.write(b"".join(encode_request(api, version, 1, self._name, body)))
        (size,) = unpack(">i", await self._reader.readexactly(4))
        return decode_response(api, version, await self._reader.readexactly(size))[1]


async def visit(scene: Stage, number: int) -> None:
    """Everything that takes a name, each with one that was never heard before, and its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.nodes[1].endpoint.port)
    stranger = Stranger(reader, writer, f"client-{number}")
    try:
        software = ApiVersionsRequest(client_software_name=f"s-{number}", client_software_version="1")
        await stranger.ask(Api.API_VERSIONS, 3, software)
        await a_topic_comes_and_goes(scene, stranger, f"topic-{number}")
        await nothing_of_that_name(stranger, f"nothing-{number}")
        await a_group_comes_and_goes(stranger, f"group-{number}")
    finally:
        writer.close()


async def a_topic_comes_and_goes(scene: Stage, stranger: Stranger, name: str) -> None:
    config = CreatableTopicConfig(name="retention.ms", value="100000")
    wanted = CreatableTopic(
        name=name, num_partitions=1, replication_factor=2, assignments=[], configs=[config]
    )
    answer = await stranger.ask(Api.CREATE_TOPICS, 2, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    assert answer.topics[0].error_code == ErrorCode.NONE
    change = AlterableConfig(name="segment.ms", config_operation=0, value="100000")
    alter = AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
    await stranger.ask(
        Api.INCREMENTAL_ALTER_CONFIGS,
        0,
        IncrementalAlterConfigsRequest(resources=[alter], validate_only=False),
    )
    tp = TopicPartition(name, 0)
    await until(lambda: all(tp in node.core.replicas for node in scene.nodes.values()))
    number = int(name.rpartition("-")[2])
    records = raw.batch([b"x"], producer=(1_000 + number, 0, 0))
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])
    await stranger.ask(Api.PRODUCE, 8, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]))
    gone = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
    answer = await stranger.ask(Api.DELETE_TOPICS, 3, gone)
    assert answer.responses[0].error_code == ErrorCode.NONE
    await until(lambda: not any(tp in node.core.replicas for node in scene.nodes.values()))
    await until(lambda: not any(name in node.core.metadata.topics for node in scene.nodes.values()))


async def nothing_of_that_name(stranger: Stranger, name: str) -> None:
    topic = MetadataRequestTopic(name=name)
    await stranger.ask(Api.METADATA, 4, MetadataRequest(topics=[topic], allow_auto_topic_creation=False))
    data = TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=0, records=raw.batch([b""]))]
    )
    await stranger.ask(Api.PRODUCE, 8, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]))
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=100, topics=[FetchTopic(topic=name, partitions=[part])]
    )
    await stranger.ask(Api.FETCH, 11, fetch)
    asked = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    await stranger.ask(Api.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=[asked]))
    for version, kind in ((2, 0), (2, 1)):
        await stranger.ask(Api.FIND_COORDINATOR, version, FindCoordinatorRequest(key=name, key_type=kind))
    await stranger.ask(Api.DESCRIBE_GROUPS, 4, DescribeGroupsRequest(groups=[name]))
    beat = HeartbeatRequest(group_id=name, generation_id=1, member_id=name)
    await stranger.ask(Api.HEARTBEAT, 3, beat)
    await stranger.ask(Api.OFFSET_COMMIT, 7, commit(name, name))


async def a_group_comes_and_goes(stranger: Stranger, name: str) -> None:
    protocol = JoinGroupRequestProtocol(name=name, metadata=b"")
    join = JoinGroupRequest(
        group_id=name,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type=name,
        protocols=[protocol],
    )
    answer = await stranger.ask(Api.JOIN_GROUP, 3, join)
    assert answer.error_code == ErrorCode.NONE
    identity = MemberIdentity(member_id=answer.member_id, group_instance_id=None)
    await stranger.ask(Api.LEAVE_GROUP, 3, LeaveGroupRequest(group_id=name, members=[identity]))
    answer = await stranger.ask(Api.OFFSET_COMMIT, 7, commit(name, "ledger"))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    answer = await stranger.ask(Api.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=[name]))
    assert answer.results[0].error_code == ErrorCode.NONE


def commit(group: str, topic: str) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )


def census(scene: Stage) -> Counter[str]:
    gc.collect()
    found = sizes(scene.keeper)
    for number, node in scene.nodes.items():
        found.update({f"{number}{place}": size for place, size in sizes(node).items()})
    return found


def grown(before: Counter[str], now: Counter[str]) -> dict[str, int]:
    return {
        place: size - before[place]
        for place, size in now.items()
        if size - before[place] >= ROUNDS // 2 and "._tail." not in place  # bounded for all logs together
    }


async def grown_for_good(scene: Stage, before: Counter[str]) -> dict[str, int]:
    """What has grown, once nothing more is forgotten: the timers of a leader run until its next check."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while (more := grown(before, census(scene))) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.5)
    return more


def test_nothing_grows_with_the_names_that_clients_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Topics, settings, groups, members, producers, clients: as many names again leave no more behind, on
    the brokers and in the keeper."""
    monkeypatch.setattr(topic_configs, "NOTES_MAX", 4)
    monkeypatch.setattr(timers, "TIDIED_FROM", 4)  # cancelled timers of members go at the next, not at 64

    async def scene() -> dict[str, int]:
        settings = {
            "group_initial_rebalance_delay_ms": "0",
            "offsets_topic_num_partitions": "1",
            "replica_lag_time_max_ms": "1000",
        }
        async with stage(tmp_path, 2, **settings) as staged:
            for threads in staged.threads.values():
                threads.release_all_from_now_on()
            await staged.create(2)
            await staged.create(1, OFFSETS_TOPIC, cleanup_policy="compact")
            for number in range(2 * ROUNDS):
                await visit(staged, number)
            before = census(staged)
            for number in range(2 * ROUNDS, 4 * ROUNDS):
                await visit(staged, number)
            return await grown_for_good(staged, before)

    more = asyncio.run(scene())
    assert not more, "\n".join(f"{size:5} {place}" for place, size in more.items())


def test_a_client_that_leaves_is_freed_at_once(tmp_path: Path):
    """With what it had sent: a fetch that waits, and half of a large frame. The garbage collector, which is
    rarely run, is not needed."""

    async def scene() -> None:
        async with stage(tmp_path, 1) as staged:
            await staged.create(1)
            (node,) = staged.nodes.values()
            gone = [await staged.client(1) for _ in range(3)]
            for client in gone:
                client.send(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body(TOPIC, 0, wait_ms_max=600_000))
                client.writer.write(raw.frame(raw.PRODUCE, raw.PRODUCE_VERSION, 9, bytes(1 << 20))[: 1 << 19])
            await until(lambda: sum(each.arriving for each in node.server.connections) == len(gone))
            gc.collect()
            gc.disable()
            try:
                before = served()
                for client in gone:
                    client.writer.transport.abort()
                await until(lambda: not any(each.arriving for each in node.server.connections))
                await until(lambda: served() == before - 2 * len(gone))
            finally:
                gc.enable()

    def served() -> int:
        return sum(isinstance(each, (ClientConnection, Request)) for each in gc.get_objects())

    asyncio.run(scene())


FREED = """
import ctypes, sys
from tidelog.broker.process import return_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]

mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
if mallinfo is None:
    sys.exit("no mallinfo2")
mallinfo.restype = Info
return_large_blocks()
for _ in range(3):
    large = bytearray(30 << 20)
    del large
before = mallinfo()
large = bytearray(10 << 20)
print(mallinfo().hblks - before.hblks)
"""


def test_a_large_request_leaves_no_memory_behind() -> None:
    """A block of its own for each, which the system gets back, also after larger ones were freed."""
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    if "no mallinfo2" in done.stderr:
        pytest.skip("another C library")
    assert (done.stdout, done.stderr) == ("1\n", "")
