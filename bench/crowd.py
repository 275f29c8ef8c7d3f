"""Many at once: 500 producers, 2,000 connections that are idle, 1,000 groups, a follower gigabytes behind.

A *probe* sends one small record after the other, acks=all, alone and while each crowd is there: what the
crowd costs others. Producers send ten records of 100 B a request, one request in flight each. Every
group has one member that joins, commits, and sends a heartbeat; the clock stops when all of them have. The
follower is killed, gigabytes are written without it, and it is started again: it is measured until it is in
sync. Every record is counted in the log; a client that gets an error ends the run.

    python -m bench.crowd [--quick] [--runs N] [--system tidelog] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from bench import client_load
from bench.client_load import Stopwatch
from bench.comparison import SYSTEMS, Figure, System, run_and_tell
from bench.processes import LOOPBACK, eventually, resident_bytes
from bench.raw_produce import RawProducer, exchange

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.wire.records import Record, build_batch

PARTITIONS = 12
RECORDS_A_REQUEST = 10
RECORD_BYTES = 100
AT_ONCE = 100
"""Connections that are opened at a time."""
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.005
"""Between two sends of the probe."""
VERSIONS = {
    Api.API_VERSIONS: 0,
    Api.PRODUCE: 8,
    Api.FIND_COORDINATOR: 2,
    Api.JOIN_GROUP: 3,
    Api.SYNC_GROUP: 2,
    Api.OFFSET_COMMIT: 5,
    Api.HEARTBEAT: 2,
}
"""Known to tidelog and to Apache Kafka 4."""


@dataclass(frozen=True)
class Plan:
    producers: int
    idle: int
    groups: int
    seconds: float
    behind_bytes: int


FULL = Plan(producers=500, idle=2_000, groups=1_000, seconds=10, behind_bytes=2_000_000_000)
QUICK = Plan(producers=500, idle=2_000, groups=200, seconds=3, behind_bytes=200_000_000)


class Refused(client_load.Miscounted):
    """A request was answered with an error."""


class Line:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = 0

    @classmethod
    async def to(cls, port: int) -> Line:
        return cls(*await asyncio.open_connection(LOOPBACK, port))

    async def ask(self, api: Api, body: Any) -> Any:
        self._sent += 1
        version = VERSIONS[api]
        self._writer.writelines(encode_request(api, version, self._sent, "crowd", body))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        answered, answer = decode_response(api, version, await self._reader.readexactly(size))
        if answered != self._sent:
            raise Refused(f"request {self._sent} was answered as {answered}")
        return answer

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


# ---------------------------------------------------------------- the probe


class Probe:
    """Waits of single sends, from a process of its own: the crowd would keep it waiting in this one."""

    def __init__(self, servers: str) -> None:
        client_load.create_topic(servers, "probe", 1)
        self._producer = RawProducer(
            servers, "probe", idempotent=False, records=1, record_bytes=RECORD_BYTES, in_flight=1
        )
        self._waits: list[float] = []

    @contextmanager
    def during(self) -> Iterator[None]:
        spawned = multiprocessing.get_context("spawn")
        ours, theirs = spawned.Pipe()
        process = spawned.Process(target=_send, args=(self._producer, theirs), daemon=True)
        process.start()
        theirs.close()
        ours.recv()  # it is connected
        try:
            yield
        finally:
            ours.send(None)
            try:
                self._waits = ours.recv()
            except EOFError:
                raise Refused("the probe has failed") from None
            process.join()

    def figures(self, what: str) -> Iterator[Figure]:
        for name, percent in (("p50", 50), ("p99", 99)):
            wait = client_load.percentile(self._waits, percent) if len(self._waits) > 1 else self._waits[0]
            yield Figure(f"a send, {what}: {name}", "ms", wait * 1e3)


def _send(producer: RawProducer, told: Connection) -> None:
    waits = []
    with producer.connected() as connection:
        told.send(None)
        while not told.poll(PAUSE_SECONDS):
            began = time.perf_counter()
            exchange(connection, [producer.frame], in_flight=1)
            waits.append(time.perf_counter() - began)
    told.send(waits)


# ---------------------------------------------------------------- crowds


async def gathered(work: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.gather(*(each() for each in work))


async def connected(stack: AsyncExitStack, ports: list[int], count: int) -> list[Line]:
    """So many connections, that have asked for versions as every client does."""
    lines: list[Line] = []
    while len(lines) < count:
        some = range(len(lines), min(len(lines) + AT_ONCE, count))
        fresh = await gathered([partial(Line.to, ports[number % len(ports)]) for number in some])
        for line in fresh:
            stack.push_async_callback(line.close)
        await gathered([partial(line.ask, Api.API_VERSIONS, ApiVersionsRequest()) for line in fresh])
        lines += fresh
    return lines


async def produce(leaders: dict[int, int], topic: str, count: int, seconds: float) -> list[float]:
    """How long each request took."""
    async with AsyncExitStack() as stack:
        places = [number % len(leaders) for number in range(count)]
        lines = await connected(stack, [leaders[place] for place in places], count)
        until = time.perf_counter() + seconds
        waits = await gathered(
            [partial(_produce, line, topic, place, until) for line, place in zip(lines, places, strict=True)]
        )
    return [wait for each in waits for wait in each]


async def _produce(line: Line, topic: str, partition: int, until: float) -> list[float]:
    record = Record(timestamp=int(time.time() * 1000), key=None, value=b"x" * RECORD_BYTES)
    batch, waits = build_batch([record] * RECORDS_A_REQUEST), list[float]()
    while (began := time.perf_counter()) < until:
        part = PartitionProduceData(index=partition, records=batch)
        data = [TopicProduceData(name=topic, partition_data=[part])]
        body = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
        answer = await line.ask(Api.PRODUCE, body)
        error = answer.responses[0].partition_responses[0].error_code
        if error:
            raise Refused(f"produce: error {error}")
        waits.append(time.perf_counter() - began)
    return waits


async def join(ports: list[int], topic: str, count: int) -> None:
    """Form groups of one member each; all of them stay until the last has formed."""
    async with AsyncExitStack() as stack:
        lines = await connected(stack, ports, 1)
        coordinators = [await _coordinator(lines[0], f"group-{number}") for number in range(count)]
        members = await connected(stack, coordinators, count)
        joined = await gathered(
            [partial(_join, line, f"group-{number}", topic) for number, line in enumerate(members)]
        )
        await gathered(
            [partial(_settled, line, Api.HEARTBEAT, beat) for line, beat in zip(members, joined, strict=True)]
        )


async def _coordinator(line: Line, group: str) -> int:
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while True:
        found = await line.ask(Api.FIND_COORDINATOR, FindCoordinatorRequest(key=group))
        if not found.error_code:
            return int(found.port)
        if time.perf_counter() > deadline:
            raise Refused(f"no coordinator: error {found.error_code}")
        await asyncio.sleep(0.1)


async def _join(line: Line, group: str, topic: str) -> HeartbeatRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"none")]
    asked = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = await _settled(line, Api.JOIN_GROUP, asked)
    belonging = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    share = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
    await _settled(line, Api.SYNC_GROUP, SyncGroupRequest(**belonging, assignments=share))
    position = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[position])],
    )
    committed = await line.ask(Api.OFFSET_COMMIT, commit)
    error = committed.topics[0].partitions[0].error_code
    if error:
        raise Refused(f"commit of {group}: error {error}")
    return HeartbeatRequest(**belonging)


_LOADING = (14, 15, 16)
"""The coordinator is not there yet: clients ask again."""


async def _settled(line: Line, api: Api, body: Any) -> Any:
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while (answer := await line.ask(api, body)).error_code in _LOADING and time.perf_counter() < deadline:
        await asyncio.sleep(0.1)
    if answer.error_code:
        raise Refused(f"{api.name}: error {answer.error_code}")
    return answer


# ---------------------------------------------------------------- one run


def measure(system: System, plan: Plan) -> Iterator[Figure]:
    with system:
        servers = system.bootstrap_servers
        probe = Probe(servers)
        with probe.during():
            time.sleep(plan.seconds)
        yield from probe.figures("alone")
        yield from idle(system, plan, probe)
        yield from producers(system, plan, probe)
        yield from groups(system, plan, probe)
        yield from behind(system, plan, probe)


def ports_of(system: System) -> list[int]:
    return [node.port for node in system.nodes.values()]


def idle(system: System, plan: Plan, probe: Probe) -> Iterator[Figure]:
    before = sum(map(resident_bytes, system.pids))
    taken: list[int] = []

    async def crowd() -> None:
        async with AsyncExitStack() as stack:
            await connected(stack, ports_of(system), plan.idle)
            await asyncio.sleep(plan.seconds)
            taken.append(sum(map(resident_bytes, system.pids)) - before)

    with probe.during():
        asyncio.run(crowd())
    yield Figure(f"{plan.idle:,} idle connections: memory of all brokers", "MB", taken[0] / 1e6)
    yield from probe.figures(f"{plan.idle:,} idle connections")


def producers(system: System, plan: Plan, probe: Probe) -> Iterator[Figure]:
    client_load.create_topic(system.bootstrap_servers, "crowd", PARTITIONS)
    with Client.to(system.bootstrap_servers) as client:
        known = client.metadata(["crowd"])
    ports = {each.node_id: each.port for each in known.brokers}
    leaders = {part.partition_index: ports[part.leader_id] for part in known.topics[0].partitions}
    watch = Stopwatch(system.pids)
    with probe.during():
        waits = asyncio.run(produce(leaders, "crowd", plan.producers, plan.seconds))
    records = len(waits) * RECORDS_A_REQUEST
    load = watch.load(records, records * RECORD_BYTES)
    found = client_load.end_offsets(system.bootstrap_servers, "crowd", PARTITIONS)
    if found != records:
        raise client_load.Miscounted(f"sent {records}, found {found}")
    cores = (load.client_cores, load.broker_cores, load.other_cores)
    yield Figure(f"{plan.producers} producers", "records/s", load.records_per_second, *cores)
    for name, percent in (("p50", 50), ("p99", 99)):
        wait = client_load.percentile(waits, percent) * 1e3
        yield Figure(f"{plan.producers} producers, a request: {name}", "ms", wait)
    yield from probe.figures(f"{plan.producers} producers")


def groups(system: System, plan: Plan, probe: Probe) -> Iterator[Figure]:
    began = time.perf_counter()
    with probe.during():
        asyncio.run(join(ports_of(system), "crowd", plan.groups))
    yield Figure(f"{plan.groups:,} groups: formed, committed", "s", time.perf_counter() - began)
    yield from probe.figures(f"{plan.groups:,} groups")


def behind(system: System, plan: Plan, probe: Probe) -> Iterator[Figure]:
    """Of the probe's topic and of the one that is written, the follower leads nothing when it comes back."""
    client_load.create_topic(system.bootstrap_servers, "behind", 1)
    with Client.to(system.bootstrap_servers) as client:
        known = client.metadata(["behind", "probe"])
    leading = {part.leader_id for topic in known.topics for part in topic.partitions}
    follower = next(broker for broker in sorted(system.nodes) if broker not in leading)
    ports = [node.port for number, node in system.nodes.items() if number != follower]
    servers = ",".join(f"{LOOPBACK}:{port}" for port in ports)

    def in_sync(replicas: int) -> bool:
        with Client(LOOPBACK, ports[0]) as client:
            found = client.metadata(["behind"])
        return len(found.brokers) == len(found.topics[0].partitions[0].isr_nodes) == replicas

    system.kill_broker(follower)
    eventually(partial(in_sync, 2), "the follower is missed", PATIENCE_SECONDS)
    written = 0
    while written < plan.behind_bytes:
        written += client_load.produce(servers, "behind", partitions=1, record_bytes=10_000, seconds=2).bytes
    with probe.during():
        system.start_broker(follower)
        began = time.perf_counter()
        eventually(partial(in_sync, 3), "the follower is in sync", PATIENCE_SECONDS)
        seconds = time.perf_counter() - began
    yield Figure(f"a follower {written / 1e9:.1f} GB behind: in sync", "MB/s", written / seconds / 1e6)
    yield from probe.figures("a follower catches up")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer groups, less time and a shorter way back")
    parser.add_argument("--runs", type=int, default=1, help="runs of each system; the median counts")
    parser.add_argument("--system", choices=SYSTEMS, help="measure only this one")
    parser.add_argument("--json", action="store_true", help="print every figure of every run as JSON")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names = [arguments.system] if arguments.system else list(SYSTEMS)
    plan = QUICK if arguments.quick else FULL
    return run_and_tell(names, partial(measure, plan=plan), arguments.runs, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
