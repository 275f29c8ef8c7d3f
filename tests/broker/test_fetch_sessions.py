"""Fetch sessions (KIP-227): only what changed is named and answered; a lost session costs a full fetch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.in_process import stage
from tests.broker.served import Client

from tidelog.broker.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_MS,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    FetchSessions,
    Partitions,
)
from tidelog.core.messages import FetchResponse
from tidelog.core.types import TopicPartition
from tidelog.wire.api import Api, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

GONE, WRONG_EPOCH = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH


def part(number: int = 0, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)


# ---------------------------------------------------------------- the cache


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


def partitions(count: int) -> Partitions:
    return {TopicPartition("t", number): CachedPartition(part(number)) for number in range(count)}


def is_open(sessions: FetchSessions, number: int, epoch: int = 1) -> bool:
    return isinstance(sessions.use(number, epoch), FetchSession)


def test_each_epoch_is_used_once_and_after_the_largest_comes_1() -> None:
    sessions = FetchSessions(10, Clock())
    number = sessions.create(partitions(1), privileged=False)
    session = sessions.use(number, 1)
    assert isinstance(session, FetchSession)
    assert sessions.use(number, 1) is WRONG_EPOCH
    assert sessions.use(number, 3) is WRONG_EPOCH
    assert sessions.use(number, 2) is session
    session.epoch = EPOCH_MAX
    assert sessions.use(number, EPOCH_MAX) is session
    assert sessions.use(number, 1) is session
    sessions.close(number)
    assert sessions.use(number, 2) is GONE
    assert sessions.partitions == 0


def test_a_full_cache_gives_no_session_until_one_was_idle_for_two_minutes() -> None:
    clock = Clock()
    sessions = FetchSessions(2, clock)
    idle, used = (sessions.create(partitions(3), privileged=False) for _ in range(2))
    assert sessions.create(partitions(9), privileged=False) == NO_SESSION
    clock.now += EVICTION_MS
    assert is_open(sessions, used)
    clock.now += 1
    new = sessions.create(partitions(1), privileged=False)
    assert new != NO_SESSION
    assert (sessions.use(idle, 1), is_open(sessions, used, 2), len(sessions)) == (GONE, True, 2)


def test_a_larger_session_takes_the_place_of_a_smaller_one_that_is_old() -> None:
    clock = Clock()
    sessions = FetchSessions(2, clock)
    small, large = (sessions.create(partitions(count), privileged=False) for count in (2, 5))
    clock.now += EVICTION_MS + 1
    assert is_open(sessions, small)
    assert is_open(sessions, large)
    assert sessions.create(partitions(1), privileged=False) == NO_SESSION
    assert sessions.create(partitions(3), privileged=False) != NO_SESSION
    assert (sessions.use(small, 2), is_open(sessions, large, 2)) == (GONE, True)
    assert sessions.partitions == 8


def test_a_follower_takes_the_place_of_a_consumer_and_never_the_other_way() -> None:
    clock = Clock()
    sessions = FetchSessions(1, clock)
    consumer = sessions.create(partitions(9), privileged=False)
    follower = sessions.create(partitions(1), privileged=True)
    assert sessions.use(consumer, 1) is GONE
    clock.now += EVICTION_MS + 1
    assert is_open(sessions, follower)
    assert sessions.create(partitions(50), privileged=False) == NO_SESSION
    assert is_open(sessions, follower, 2)


def test_all_sessions_together_hold_a_bounded_number_of_partitions() -> None:
    sessions = FetchSessions(10, Clock(), partitions_max=5)
    number = sessions.create(partitions(3), privileged=False)
    assert sessions.create(partitions(3), privileged=False) == NO_SESSION
    session = sessions.use(number, 1)
    assert isinstance(session, FetchSession)
    topic = FetchTopic(topic="more", partitions=[part(number) for number in range(3)])
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    steps = sessions.update(session, body)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value is False
    assert (sessions.use(number, 2), sessions.partitions, len(sessions)) == (GONE, 0, 0)


def test_a_partition_is_news_when_something_changed_and_after_an_error() -> None:
    known = CachedPartition(part())
    tp = TopicPartition("t", 0)

    def answer(
        error: ErrorCode = ErrorCode.NONE, high: int = 5, start: int = 0, records: bool = False
    ) -> bool:
        response = FetchResponse(tp, error, 0, 0, high, (), start)  # type: ignore[arg-type]
        return known.answer(response, has_records=records)

    assert answer()
    assert not answer()
    assert answer(records=True)
    assert answer(high=6)
    assert answer(high=6, start=1)
    assert not answer(high=6, start=1)
    failed = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [answer(failed, -1, -1), answer(failed, -1, -1)] == [True, True]
    assert answer(high=6, start=1)


# ---------------------------------------------------------------- a broker


class Reader:
    """A client that fetches with session id and epoch of the test's choice."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def fetch(
        self,
        session: int,
        epoch: int,
        *named: tuple[str, int],
        forgotten: tuple[str, ...] = (),
        version: int = 12,
    ) -> Any:
        topics = [FetchTopic(topic=topic, partitions=[part(0, offset)]) for topic, offset in named]
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=topics,
            session_id=session,
            session_epoch=epoch,
            forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[0]) for topic in forgotten],
        )
        self._client.writer.write(b"".join(encode_request(Api.FETCH, version, 1, "reader", body)))
        return (await self._client.answer(Api.FETCH, version))[1]


def seen(answer: Any) -> dict[str, tuple[int, int, bool]]:
    """Of each partition in the answer: its error, its high watermark, whether there are records."""
    return {
        each.topic: (data.error_code, data.high_watermark, bool(data.records))
        for each in answer.responses
        for data in each.partitions
    }


def test_a_session_answers_what_changed(tmp_path: Path) -> None:
    """Over a real connection: opened, quiet, new records, a new position, a repeated epoch, partitions that
    leave and come, and the end."""

    async def scene() -> None:
        async with stage(tmp_path) as set_up:
            set_up.threads[1].release_all_from_now_on()
            for topic in ("a", "b", "c"):
                await set_up.create(1, topic)
            writer = await set_up.client(1)

            async def write(topic: str) -> None:
                writer.produce(b"record", topic=topic)
                assert (await writer.produced()).error == 0

            port = set_up.nodes[1].endpoint.port
            connection = Client(*await asyncio.open_connection("127.0.0.1", port))
            reader = Reader(connection)
            opened = await reader.fetch(0, 0, ("a", 0), ("b", 0))
            session = opened.session_id
            assert session > 0
            assert seen(opened) == {"a": (0, 0, False), "b": (0, 0, False)}
            quiet = await reader.fetch(session, 1)
            assert (quiet.error_code, quiet.session_id, quiet.responses) == (0, session, [])
            await write("b")
            assert seen(await reader.fetch(session, 2)) == {"b": (0, 1, True)}
            assert seen(await reader.fetch(session, 3)) == {"b": (0, 1, True)}
            assert seen(await reader.fetch(session, 4, ("b", 1))) == {}
            repeated = await reader.fetch(session, 4)
            assert (repeated.error_code, repeated.session_id, repeated.responses) == (WRONG_EPOCH, 0, [])
            await write("a")
            await write("b")
            answer = await reader.fetch(session, 5, ("c", 0), forgotten=("a",))
            assert seen(answer) == {"b": (0, 2, True), "c": (0, 0, False)}
            assert seen(await reader.fetch(session, 6, ("nowhere", 0)))["nowhere"][0] == 3
            assert (await reader.fetch(session + 1, 1)).error_code == GONE
            emptied = await reader.fetch(session, 7, forgotten=("b", "c", "nowhere"))
            assert (emptied.error_code, emptied.session_id, emptied.responses) == (0, 0, [])
            assert (await reader.fetch(session, 8)).error_code == GONE
            again = (await reader.fetch(0, 0, ("a", 0), version=7)).session_id
            closing = await reader.fetch(again, -1, ("a", 1))
            assert (closing.session_id, seen(closing)) == (0, {"a": (0, 1, False)})
            assert (await reader.fetch(again, 1)).error_code == GONE
            assert len(set_up.nodes[1].fetch_sessions) == 0
            connection.writer.close()

    asyncio.run(scene())
