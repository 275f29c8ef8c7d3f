"""Clients name topics by id (KIP-516): a topic created again is another one, on the wire and on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.broker.in_process import Stage, stage, until
from tests.broker.served import Client

from tidelog.broker.topic_ids import random_topic_id
from tidelog.core.topic_ids import from_wire, to_wire
from tidelog.core.types import NO_TOPIC_ID, ControllerEpoch, TopicId, TopicPartition
from tidelog.wire.api import Api, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.schema import NO_UUID

STRANGE = bytes(range(16))
TP = TopicPartition("t", 0)
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID


def test_ids_are_written_as_kafka_writes_them() -> None:
    """22 characters that are safe in a URL, none of which looks like an option at the beginning."""
    made = {random_topic_id(ControllerEpoch(1), 1) for _ in range(300)}
    assert len(made) == 300
    assert all(len(topic_id) == 22 and topic_id[0] != "-" for topic_id in made)
    assert all(from_wire(to_wire(topic_id)) == topic_id for topic_id in made)
    assert (to_wire(NO_TOPIC_ID), from_wire(NO_UUID)) == (NO_UUID, NO_TOPIC_ID)
    assert to_wire(TopicId("not an id")) == NO_UUID


class Asking:
    """One connection to a broker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, api: Api, version: int, body: Any) -> Any:
        self._client.writer.write(b"".join(encode_request(api, version, 1, "client", body)))
        return (await self._client.answer(api, version))[1]

    async def create(self) -> bytes:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        answer = await self.ask(Api.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == NONE
        return bytes(answer.topics[0].topic_id)

    async def delete(self, *topics: DeleteTopicState) -> list[tuple[str | None, bytes, int]]:
        body = DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000)
        answer = await self.ask(Api.DELETE_TOPICS, 6, body)
        return [(each.name, each.topic_id, each.error_code) for each in answer.responses]

    async def metadata(
        self, *topics: MetadataRequestTopic, version: int = 12
    ) -> list[tuple[str | None, bytes, int]]:
        answer = await self.ask(Api.METADATA, version, MetadataRequest(topics=list(topics) or None))
        return [(each.name, each.topic_id, each.error_code) for each in answer.topics]

    async def fetch(
        self,
        *topics: bytes,
        session: tuple[int, int] = (0, -1),
        forgotten: tuple[bytes, ...] = (),
        version: int = 13,
        **more: Any,
    ) -> Any:
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[part]) for topic_id in topics],
            session_id=session[0],
            session_epoch=session[1],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[0]) for topic_id in forgotten
            ],
            **more,
        )
        return await self.ask(Api.FETCH, version, body)


@asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[tuple[Stage, Asking]]:
    """A broker, and a client of it."""
    async with stage(folder) as set_up:
        set_up.threads[1].release_all_from_now_on()
        reader, writer = await asyncio.open_connection("127.0.0.1", set_up.nodes[1].endpoint.port)
        try:
            yield set_up, Asking(Client(reader, writer))
        finally:
            writer.close()


def seen(answer: Any) -> dict[bytes, tuple[int, bool]]:
    """Of each topic in the answer: the error of its partition, whether there are records."""
    return {
        each.topic_id: (data.error_code, bool(data.records))
        for each in answer.responses
        for data in each.partitions
    }


def test_a_client_asks_by_id(tmp_path: Path) -> None:
    """Metadata, DescribeTopicPartitions, DeleteTopics; the id is in the folder of the partition too."""

    async def scene() -> None:
        async with asking(tmp_path) as (_set_up, client):
            first = await client.create()
            assert first != NO_UUID
            by_id, strange = MetadataRequestTopic(name=None, topic_id=first), STRANGE
            unknown = MetadataRequestTopic(name=None, topic_id=strange)
            assert await client.metadata(by_id, unknown) == [(None, strange, UNKNOWN), ("t", first, NONE)]
            assert await client.metadata(version=10) == [("t", first, NONE)]
            assert await client.metadata(version=9) == [("t", NO_UUID, NONE)]
            both = MetadataRequestTopic(name="t", topic_id=first)
            assert await client.metadata(both) == [("t", first, ErrorCode.INVALID_REQUEST)]
            body = DescribeTopicPartitionsRequest(topics=[])
            described = await client.ask(Api.DESCRIBE_TOPIC_PARTITIONS, 0, body)
            assert [topic.topic_id for topic in described.topics] == [first]
            content = (tmp_path / "1" / "t-0" / "partition.metadata").read_text()
            assert content == f"version: 0\ntopic_id: {from_wire(first)}\n"
            states = (DeleteTopicState(topic_id=strange), DeleteTopicState(topic_id=first))
            assert await client.delete(*states) == [(None, strange, UNKNOWN), ("t", first, NONE)]
            await until(lambda: not (tmp_path / "1" / "t-0").exists())
            assert await client.metadata() == []

    asyncio.run(scene())


def test_a_fetch_by_id_is_for_that_topic_only(tmp_path: Path) -> None:
    """Without a session, and in one: the topic is deleted, created again, and named by its new id."""

    async def scene() -> None:
        async with asking(tmp_path) as (set_up, client):
            writer = await set_up.client(1)
            first = await client.create()
            writer.produce(b"record", topic="t")
            assert (await writer.produced()).error == 0
            assert seen(await client.fetch(first, STRANGE)) == {
                first: (NONE, True),
                STRANGE: (UNKNOWN, False),
            }
            debugging = ReplicaState(replica_id=-2)
            answer = await client.fetch(first, version=18, replica_state=debugging)
            assert seen(answer) == {first: (NONE, True)}
            number = (await client.fetch(first, STRANGE, session=(0, 0))).session_id
            assert number > 0
            assert seen(await client.fetch(session=(number, 1))) == {
                first: (NONE, True),
                STRANGE: (UNKNOWN, False),
            }
            wrong = await client.fetch(session=(number, 2), version=12)
            assert wrong.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            await client.delete(DeleteTopicState(name="t"))
            await until(lambda: not (tmp_path / "1" / "t-0").exists())
            second = await client.create()
            assert second != first
            assert seen(await client.fetch(first)) == {first: (UNKNOWN, False)}
            answer = seen(await client.fetch(session=(number, 3)))
            assert answer == {first: (ErrorCode.INCONSISTENT_TOPIC_ID, False), STRANGE: (UNKNOWN, False)}
            answer = await client.fetch(second, session=(number, 4), forgotten=(first, STRANGE))
            assert seen(answer) == {second: (NONE, False)}
            writer.produce(b"record", topic="t")
            assert (await writer.produced()).error == 0
            assert seen(await client.fetch(session=(number, 5))) == {second: (NONE, True)}
            emptied = await client.fetch(session=(number, 6), forgotten=(second,))
            assert (emptied.session_id, emptied.responses) == (0, [])

    asyncio.run(scene())


def test_a_session_finds_a_topic_that_becomes_known(tmp_path: Path) -> None:
    """The client may have the id from another broker, before this one has heard of the topic."""

    async def scene() -> None:
        async with asking(tmp_path) as (set_up, client):
            first = await client.create()
            metadata = set_up.nodes[1].core.metadata
            name = metadata.topic_names.pop(from_wire(first))
            number = (await client.fetch(first, session=(0, 0))).session_id
            assert seen(await client.fetch(session=(number, 1))) == {first: (UNKNOWN, False)}
            metadata.topic_names[from_wire(first)] = name
            assert seen(await client.fetch(session=(number, 2))) == {first: (NONE, False)}

    asyncio.run(scene())


def test_a_log_of_an_earlier_topic_is_kept_aside_on_disk(tmp_path: Path) -> None:
    """The folder gets the suffix of Kafka, and no start reads it again."""

    async def scene() -> None:
        async with asking(tmp_path) as (set_up, client):
            first = await client.create()
            storage = set_up.nodes[1].storage
            writer = await set_up.client(1)
            writer.produce(b"record", topic="t")
            assert (await writer.produced()).error == 0
            storage.set_aside(TP)
            log = storage.open(TP)
            assert (log.end_offset, log.topic_id) == (0, NO_TOPIC_ID)
            (stray,) = (tmp_path / "1").glob("t-0.*-stray")
            assert from_wire(first) in (stray / "partition.metadata").read_text()
            assert (stray / f"{0:020}.log").stat().st_size > 0

    asyncio.run(scene())
