"""Throttles between brokers: a replica that is not in sync waits, one that is does not, nor do clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from struct import unpack
from typing import Any

from tests.broker.in_process import TOPIC, Client, Stage, stage, until

from tidelog.broker.replica_session import ReplicaSession
from tidelog.core.types import BrokerId, TopicPartition
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_configs import AlterableConfig as NamedConfig
from tidelog.wire.messages.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.alter_configs import AlterConfigsResource as NamedResource
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.one_partition import FETCH_VERSION

TP = TopicPartition(TOPIC, 0)
LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
THROTTLED = {
    "leader_replication_throttled_replicas": "0:1",
    "follower_replication_throttled_replicas": "0:2",
}
ON_TOPIC, ON_BROKER, ON_LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2
RECORDS = 40


async def ask(set_up: Stage, broker: int, api: Api, version: int, body: Any) -> Any:
    port = set_up.nodes[broker].endpoint.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"".join(encode_request(api, version, 1, "test", body)))
        (size,) = unpack(">i", await reader.readexactly(4))
        return decode_response(api, version, await reader.readexactly(size))[1]
    finally:
        writer.close()


async def alter(
    set_up: Stage,
    name: str,
    settings: Mapping[str, str | None],
    *,
    at: int = 1,
    kind: int = ON_BROKER,
    operation: int | None = None,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """A setting without a value is removed."""
    configs = [
        AlterableConfig(
            name=key,
            config_operation=operation if operation is not None else DELETE if value is None else SET,
            value=value,
        )
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await ask(set_up, at, Api.INCREMENTAL_ALTER_CONFIGS, 0, request)).responses
    return result.error_code, result.error_message


async def described(set_up: Stage, name: str, *, at: int = 1) -> dict[str, tuple[str | None, int, bool]]:
    """Value, source, and whether it is read-only."""
    asked = DescribeConfigsResource(resource_type=ON_BROKER, resource_name=name, configuration_keys=None)
    (result,) = (
        await ask(set_up, at, Api.DESCRIBE_CONFIGS, 1, DescribeConfigsRequest(resources=[asked]))
    ).results
    assert result.error_code == ErrorCode.NONE
    return {entry.name: (entry.value, entry.config_source, entry.read_only) for entry in result.configs}


def on_brokers(
    tmp_path: Path, scene: Callable[[Stage], Coroutine[Any, Any, None]], brokers: int = 2, **settings: str
) -> None:
    async def play() -> None:
        async with stage(tmp_path, brokers, **settings) as set_up:
            for threads in set_up.threads.values():
                threads.release_all_from_now_on()
            await scene(set_up)

    asyncio.run(play())


# ---------------------------------------------------------------- settings


def test_settings_of_running_brokers_are_set_described_and_removed(tmp_path: Path) -> None:
    async def scene(set_up: Stage) -> None:
        assert (await described(set_up, "1"))[LEADER] == (str((1 << 63) - 1), 5, False)
        assert await described(set_up, "") == {}
        assert await alter(set_up, "", {LEADER: "7", FOLLOWER: "8"}) == (0, None)
        assert await alter(set_up, "1", {LEADER: "9"}) == (0, None)
        assert await described(set_up, "") == {LEADER: ("7", 3, False), FOLLOWER: ("8", 3, False)}
        mine = await described(set_up, "1")
        assert (mine[LEADER], mine[FOLLOWER]) == (("9", 2, False), ("8", 3, False))
        assert mine["broker.id"] == ("1", 4, True)
        throttles = set_up.nodes[1].throttles
        assert (throttles.leader.quota.rate, throttles.follower.quota.rate) == (9, 8)
        other = set_up.nodes[2].throttles
        await until(lambda: (other.leader.quota.rate, other.follower.quota.rate) == (7, 8))
        assert (await described(set_up, "2", at=2))[LEADER] == ("7", 3, False)
        assert await alter(set_up, "1", {LEADER: None, "num.partitions": None}) == (0, None)
        assert (await described(set_up, "1"))[LEADER] == ("7", 3, False)
        named = NamedResource(
            resource_type=ON_BROKER, resource_name="", configs=[NamedConfig(name=LEADER, value="5")]
        )
        request = AlterConfigsRequest(resources=[named], validate_only=False)
        (result,) = (await ask(set_up, 1, Api.ALTER_CONFIGS, 0, request)).responses
        assert result.error_code == ErrorCode.NONE
        assert await described(set_up, "") == {LEADER: ("5", 3, False)}, "it replaces all of them"

    on_brokers(tmp_path, scene)


def test_what_a_broker_cannot_change_is_refused_and_said(tmp_path: Path) -> None:
    """As a whole: nothing of such a request is written."""

    async def scene(set_up: Stage) -> None:
        for name, settings, words in (
            ("1", {"num.partitions": "3"}, "num.partitions cannot be changed at run time"),
            ("", {LEADER: "1", "log.dirs": "/"}, "log.dirs cannot be changed at run time"),
            ("1", {LEADER: "1", FOLLOWER: "-1"}, f"{FOLLOWER}=-1: expected an integer of at least 0"),
            ("1", {"x": "3"}, "unknown setting of a running broker x"),
            ("2", {LEADER: "3"}, "Unexpected broker id, expected 1, but received 2."),
            ("one", {LEADER: "3"}, "Unexpected broker id"),
        ):
            code, said = await alter(set_up, name, settings)
            assert code == ErrorCode.INVALID_REQUEST
            assert (said or "").startswith(words)
        code, said = await alter(set_up, "1", {LEADER: "3"}, kind=ON_LOGGER)
        assert (code, said) == (
            ErrorCode.INVALID_REQUEST,
            "Only topics and brokers have settings that can be altered.",
        )
        code, _ = await alter(set_up, "1", {LEADER: "3"}, operation=APPEND)
        assert code == ErrorCode.INVALID_REQUEST
        assert await alter(set_up, "1", {LEADER: "3"}, validate_only=True) == (0, None)
        assert (await described(set_up, "1"))[LEADER][1] == 5, "nothing is set"
        assert await described(set_up, "") == {}

    on_brokers(tmp_path, scene, brokers=1)


# ---------------------------------------------------------------- replication


async def filled(set_up: Stage, **config: str) -> Client:
    """A topic on broker 1 with more records than one fetch takes. Returns its producer."""
    await set_up.create([1], **config)
    producer = await set_up.client(1)
    for _ in range(RECORDS):
        producer.produce(b"x" * 1_000)
        assert (await producer.produced()).error == 0
    return producer


async def reassign(set_up: Stage, *brokers: int) -> None:
    part = ReassignablePartition(partition_index=0, replicas=list(brokers))
    topics = [ReassignableTopic(name=TOPIC, partitions=[part])]
    controller = set_up.nodes[1].core.known_controller
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
    answer = await ask(set_up, controller, Api.ALTER_PARTITION_REASSIGNMENTS, 0, request)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def end(set_up: Stage, broker: int) -> int:
    replica = set_up.nodes[broker].core.replicas.get(TP)
    return 0 if replica is None else replica.log.end_offset


def in_sync(set_up: Stage) -> bool:
    return set_up.nodes[1].has_in_sync(TP, BrokerId(2))


def held_by_leader(set_up: Stage) -> bool:
    sessions = set_up.nodes[1].fetch_sessions._sessions.values()
    return any(TP in session._held_back for session in sessions if isinstance(session, ReplicaSession))


def held_by_follower(set_up: Stage) -> bool:
    return any(TP in peer.following.held_back for peer in set_up.nodes[2].peers._peers.values())


def test_a_leader_holds_back_records_until_the_throttle_is_removed(tmp_path: Path) -> None:
    """Producers with acks=all go on meanwhile, and afterwards nothing is missing."""

    async def scene(set_up: Stage) -> None:
        producer = await filled(set_up, **THROTTLED)
        await alter(set_up, "1", {LEADER: "1"})
        await reassign(set_up, 1, 2)
        await until(lambda: held_by_leader(set_up))
        producer.produce(b"meanwhile")
        assert (await producer.produced()).error == 0
        assert 0 < end(set_up, 2) < RECORDS
        assert not in_sync(set_up)
        await alter(set_up, "1", {LEADER: None})
        await until(lambda: in_sync(set_up) and end(set_up, 2) == end(set_up, 1) == RECORDS + 1)

    on_brokers(tmp_path, scene, replica_fetch_max_bytes="4000", replica_fetch_wait_max_ms="100")


def test_a_follower_does_not_fetch_until_the_throttle_is_removed(tmp_path: Path) -> None:
    """Of the topic, while the rate stays; its leader is not asked for the partition meanwhile."""

    async def scene(set_up: Stage) -> None:
        await filled(set_up, **THROTTLED)
        await alter(set_up, "2", {FOLLOWER: "1"}, at=2)
        await reassign(set_up, 1, 2)
        await until(lambda: held_by_follower(set_up))
        assert 0 < end(set_up, 2) < RECORDS
        sessions = set_up.nodes[1].fetch_sessions._sessions
        await until(lambda: not any(TP in session.partitions for session in sessions.values()))
        await alter(set_up, TOPIC, {"follower.replication.throttled.replicas": None}, kind=ON_TOPIC)
        await until(lambda: in_sync(set_up) and end(set_up, 2) == RECORDS)

    on_brokers(tmp_path, scene, replica_fetch_max_bytes="4000")


def test_a_replica_in_sync_never_waits(tmp_path: Path) -> None:
    """Whatever the quotas are: otherwise acks=all would."""

    async def scene(set_up: Stage) -> None:
        for broker in (1, 2):
            await alter(set_up, str(broker), {LEADER: "1", FOLLOWER: "1"}, at=broker)
        await set_up.create(
            2,
            min_insync_replicas="2",
            leader_replication_throttled_replicas="*",
            follower_replication_throttled_replicas="*",
        )
        producer = await set_up.client(1)
        for _ in range(RECORDS):
            producer.produce(b"x" * 1_000)
            assert (await producer.produced()).error == 0
        assert in_sync(set_up)
        assert set_up.nodes[1].throttles.leader.is_exceeded()
        assert set_up.nodes[2].throttles.follower.is_exceeded()

    on_brokers(tmp_path, scene)


def test_a_follower_without_a_session_waits_as_if_there_were_no_records(tmp_path: Path) -> None:
    """It must not ask again at once. A consumer is not throttled."""

    async def scene(set_up: Stage) -> None:
        await filled(set_up, leader_replication_throttled_replicas="*")
        set_up.nodes[1].throttles.leader.quota.rate = 0
        await reassign(set_up, 1, 2)
        await until(set_up.nodes[1].throttles.leader.is_exceeded)
        epoch = set_up.nodes[1].core.replicas[TP].leader_epoch
        part = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=0,
            log_start_offset=0,
            partition_max_bytes=1_000,
        )
        wait_ms = 200
        request = FetchRequest(
            replica_id=2,
            replica_epoch=set_up.nodes[2].core.ctx.broker_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic=TOPIC, partitions=[part])],
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await ask(set_up, 1, Api.FETCH, FETCH_VERSION, request)
        assert loop.time() - began > (wait_ms - 10) / 1_000
        (data,) = answer.responses[0].partitions
        assert (data.error_code, bytes(data.records or b"")) == (ErrorCode.NONE, b"")
        consumer = await set_up.client(1)
        assert (await consumer.fetched(0)).error == 0

    on_brokers(tmp_path, scene, replica_fetch_max_bytes="4000")
