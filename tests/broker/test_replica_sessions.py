"""Fetch sessions between brokers: a follower names what changed, and nothing is lost when a session is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.broker.in_process import Stage, stage, until
from tests.broker.served import Client

from tidelog.broker.connection import Request
from tidelog.broker.fetch_sessions import FetchSession
from tidelog.broker.node import Node
from tidelog.broker.peers.connection import PeerConnection
from tidelog.broker.peers.fetching import Flight, FollowerFetches
from tidelog.broker.replica_session import ReplicaSession
from tidelog.broker.throttles import FollowerThrottle
from tidelog.broker.translation import replication
from tidelog.core.messages import FetchRequest
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.topic_ids import to_wire
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from tidelog.settings.kinds import EVERY_REPLICA
from tidelog.wire.api import Api, decode_request, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch
from tidelog.wire.one_partition import FETCH_VERSION, write_fetch
from tidelog.wire.schema import NO_UUID

TOPICS = ("a", "b", "c")
FIRST_ID, SECOND_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), TopicId("AAAAAAAAAAAAAAAAAAAAAg")
GONE, WRONG_EPOCH = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH


def partition(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


# ---------------------------------------------------------------- brokers


class Pair:
    """A leader and its follower of three topics."""

    def __init__(self, set_up: Stage) -> None:
        self.set_up = set_up
        self.leader, self.follower = set_up.nodes[1], set_up.nodes[2]
        self.named: list[list[str]] = []
        """The topics in each request of a session."""

    async def begin(self) -> None:
        for threads in self.set_up.threads.values():
            threads.release_all_from_now_on()
        for topic in TOPICS:
            await self.set_up.create(2, topic)
        self.writer = await self.set_up.client(1)
        await until(lambda: len(self.session.partitions) == len(TOPICS))

    @property
    def session(self) -> FetchSession:
        (session,) = self.leader.fetch_sessions._sessions.values() or (
            FetchSession(0, {}, 0, privileged=True),
        )
        return session

    @contextmanager
    def watched(self) -> Iterator[None]:
        serve = self.leader.server.handlers[Api.FETCH]

        def watch(request: Request) -> Any:
            self.named.append([topic.topic for topic in request.body.topics])
            return serve(request)

        self.leader.server.replace(Api.FETCH, watch)
        yield
        self.leader.server.restore(Api.FETCH)

    async def write(self, topic: str) -> None:
        self.writer.produce(b"record", topic=topic)
        assert (await self.writer.produced()).error == 0

    def end(self, node: Node, topic: str) -> tuple[int, int]:
        replica = node.core.replicas[partition(topic)]
        return replica.log.end_offset, replica.high_watermark


def test_a_follower_names_only_what_changed_and_learns_every_high_watermark(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, 2, replica_fetch_wait_max_ms="100") as set_up:
            pair = Pair(set_up)
            await pair.begin()
            with pair.watched():
                for _ in range(20):
                    await pair.write("b")
            assert {topic for topics in pair.named for topic in topics} == {"b"}
            await until(lambda: pair.end(pair.follower, "b") == (20, 20))
            role = pair.leader.core.replicas[partition("a")].role
            assert isinstance(role, LeaderRole)
            before = role.followers[BrokerId(2)].last_fetch
            # Partitions that no request names are still fetched, as often as one that has nothing new.
            await until(lambda: role.followers[BrokerId(2)].last_fetch > before + 100)
            await pair.write("a")
            await until(lambda: pair.end(pair.follower, "a") == (1, 1))

    asyncio.run(scene())


def test_records_that_come_while_no_request_waits_are_in_the_next_answer(tmp_path: Path) -> None:
    """Whatever that request names: otherwise they would wait as long as a fetch may."""

    async def scene() -> None:
        async with stage(tmp_path, 2, replica_fetch_wait_max_ms="20000") as set_up:
            pair = Pair(set_up)
            await pair.begin()
            await pair.write("a")
            session = cast(ReplicaSession, pair.session)
            await until(lambda: session._request is not None)
            # The request that waits is answered with the records of one, in the same turn the other's come.
            another = await set_up.client(1)
            await another.ping()
            writers = (pair.writer, another)
            for writer, topic in zip(writers, ("a", "b"), strict=True):
                writer.produce(b"record", topic=topic)
            answers = [await writer.produced() for writer in writers]
            assert [answer.error for answer in answers] == [0, 0], "neither has timed out"

    asyncio.run(scene())


def test_a_high_watermark_without_records_waits_for_the_renewal(tmp_path: Path) -> None:
    """As in the lab, where a follower's fetch waits: its high watermark lags behind."""

    async def scene() -> None:
        async with stage(tmp_path, 2, replica_fetch_wait_max_ms="20000") as set_up:
            pair = Pair(set_up)
            await pair.begin()
            for _ in range(2):
                await pair.write("b")
            session = cast(ReplicaSession, pair.session)
            session._renewal_at = 0
            await pair.write("a")
            for _ in range(3):
                await pair.write("b")
            assert pair.end(pair.follower, "a") == (1, 0)
            session._renewal_at = 0
            await pair.write("b")
            await until(lambda: pair.end(pair.follower, "a") == (1, 1))

    asyncio.run(scene())


def test_a_follower_whose_session_is_lost_fetches_in_full(tmp_path: Path) -> None:
    """The leader has closed it, or expects another epoch."""

    async def scene() -> None:
        async with stage(tmp_path, 2, replica_fetch_wait_max_ms="100") as set_up:
            pair = Pair(set_up)
            await pair.begin()
            former = pair.session
            pair.leader.fetch_sessions.close(former.id)
            pair.leader.settle()
            await pair.write("a")
            await until(lambda: len(pair.session.partitions) == len(TOPICS))
            another = pair.session
            assert another.id != former.id
            another.epoch += 5
            await pair.write("b")
            await until(lambda: pair.session not in (former, another))
            for topic in TOPICS:
                await pair.write(topic)
            await until(lambda: all(pair.end(pair.follower, topic)[1] > 0 for topic in TOPICS))
            role = pair.leader.core.replicas[partition("a")].role
            assert isinstance(role, LeaderRole)
            assert len(role.parked[1]) <= 1, "closed sessions leave no fetch behind"

    asyncio.run(scene())


def test_a_partition_that_a_follower_gives_up_leaves_the_session(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, 2) as set_up:
            pair = Pair(set_up)
            await pair.begin()
            pair.follower.core.replicas[partition("b")].step_down()
            pair.follower.settle()
            await until(lambda: partition("b") not in pair.session.partitions)
            role = pair.leader.core.replicas[partition("b")].role
            assert isinstance(role, LeaderRole)
            assert not role.parked[1]
            await pair.write("a")

    asyncio.run(scene())


def test_a_session_ends_with_its_connection_and_nothing_is_fetched_for_a_follower_that_hangs(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with stage(tmp_path, 2) as set_up:
            for threads in set_up.threads.values():
                threads.release_all_from_now_on()
            await set_up.create(2, "a")
            role = set_up.nodes[1].core.replicas[partition("a")].role
            assert isinstance(role, LeaderRole)
            sessions = set_up.nodes[1].fetch_sessions._sessions
            await until(lambda: any(cast(ReplicaSession, each)._request for each in sessions.values()))
            await set_up.nodes[2].server.close()
            set_up.nodes[2].peers.close()
            await until(lambda: not sessions and not role.parked[1])
            port = set_up.nodes[1].endpoint.port
            client = Client(*await asyncio.open_connection("127.0.0.1", port))
            progress = role.followers[BrokerId(2)]

            def header(session: int, epoch: int, wait_ms: int) -> fetch.FetchRequest:
                body = replication.fetch_header(BrokerId(2), progress.broker_epoch, wait_ms, 1 << 20)
                body.session_id, body.session_epoch = session, epoch
                return body

            async def ask(session: int, epoch: int, *, named: bool = False) -> Any:
                body = header(session, epoch, 10)
                if named:
                    asked = FetchRequest(partition("a"), BrokerId(2), 0, role.epoch, 10)
                    body.topics = replication.named_partitions([asked], 1 << 20, {})
                client.writer.write(b"".join(encode_request(Api.FETCH, 12, 1, "follower", body)))
                return (await client.answer(Api.FETCH, 12))[1]

            session = (await ask(0, 0, named=True)).session_id
            assert isinstance(sessions[session], ReplicaSession)
            assert (await ask(session, 1)).responses == []
            assert len(role.parked[1]) == 1
            heard = progress.last_fetch
            await until(lambda: set_up.nodes[1].now() > heard + 50)
            assert progress.last_fetch == heard, "without a request the follower is not there"
            assert (await ask(session, 2)).error_code == 0
            assert progress.last_fetch > heard
            assert (await ask(session, 2)).error_code == WRONG_EPOCH
            client.writer.write(b"".join(encode_request(Api.FETCH, 12, 1, "f", header(session, 3, 60_000))))
            await until(lambda: sessions[session].epoch == 4)
            client.writer.close()
            await until(lambda: not sessions)
            assert not role.parked[1]

    asyncio.run(scene())


# ---------------------------------------------------------------- the follower's side, request by request


class Line:
    """A connection whose answers come when the test wants."""

    def __init__(self) -> None:
        self.sent: list[tuple[fetch.FetchRequest, Flight]] = []
        self._unanswered: list[Flight] = []

    def send(self, _api: int, _version: int, body: fetch.FetchRequest, asked: Flight) -> None:
        self.sent.append((body, asked))
        self._unanswered.append(asked)

    def send_one(self, one: Sequence[Any], asked: Flight) -> bool:
        """As the leader reads it."""
        body = decode_request(write_fetch(1, *one)[4:])[1]
        self.send(Api.FETCH, FETCH_VERSION, body, asked)
        return True

    def names(self) -> list[tuple[str, int]]:
        """What the last request names."""
        body, _ = self.sent[-1]
        return [(topic.topic, part.fetch_offset) for topic in body.topics for part in topic.partitions]

    def ids(self) -> dict[str, bytes]:
        """The ids of topics in the last request."""
        return {topic.topic: topic.followed_topic_id for topic in self.sent[-1][0].topics}

    def forgets(self) -> list[str]:
        return [topic.topic for topic in self.sent[-1][0].forgotten_topics_data]


class Following:
    def __init__(self) -> None:
        self.line = Line()
        self.throttle = FollowerThrottle(BrokerId(2), lambda: 0)
        self.broker_epoch = BrokerEpoch(1)
        self.fetches = FollowerFetches(
            cast(PeerConnection, self.line),
            lambda: replication.fetch_header(BrokerId(2), self.broker_epoch, 500, 1 << 20),
            1 << 20,
            self.throttle,
        )

    def want(self, topic: str, offset: int, epoch: int = 1, topic_id: TopicId = NO_TOPIC_ID) -> None:
        where = (partition(topic), BrokerId(2), offset, LeaderEpoch(epoch), 500, BrokerEpoch(1))
        self.fetches.want(FetchRequest(*where, topic_id=topic_id))

    def send(self, *, waiting: bool = False) -> None:
        self.fetches.send(waiting=waiting)

    def answer(self, *topics: str, session: int = 9, error: int = 0) -> list[tuple[str, int, int]]:
        """Answer the oldest request. Returns topics, offsets and epochs as the core gets them."""
        parts = [fetch.PartitionData(partition_index=0, high_watermark=0, records=b"")]
        body = fetch.FetchResponse(
            error_code=error,
            session_id=session,
            responses=[fetch.FetchableTopicResponse(topic=topic, partitions=parts) for topic in topics],
        )
        flight = self.line._unanswered.pop(0)
        return [
            (response.tp.topic, response.offset, response.current_leader_epoch)
            for response in self.fetches.answers(flight, body)
        ]


def opened() -> Following:
    """A session with the partitions of a and b, whose first request waits."""
    following = Following()
    following.want("a", 0)
    following.want("b", 0)
    following.send()
    assert following.answer("a", "b") == [("a", 0, 1), ("b", 0, 1)]
    following.want("a", 5)
    following.want("b", 0)
    following.send()
    assert following.line.names() == [("a", 5)]
    return following


def test_an_empty_answer_is_followed_by_an_empty_request() -> None:
    following = opened()
    assert following.answer() == []
    following.send()
    body, _ = following.line.sent[-1]
    assert (body.session_id, body.session_epoch, body.topics, body.forgotten_topics_data) == (9, 2, [], [])
    following.send()
    assert len(following.line.sent) == 3, "one request waits, and there is nothing to say"


def test_a_position_that_did_not_change_is_not_named_and_one_that_is_not_fetched_again_leaves() -> None:
    following = opened()
    assert following.answer("a", "b") == [("a", 5, 1), ("b", 0, 1)]
    following.want("b", 0)
    following.send()
    assert (following.line.names(), following.line.forgets()) == ([], ["a"])
    following.answer()
    following.want("a", 5)
    following.send()
    assert following.line.names() == [("a", 5)]


def test_the_broker_epoch_is_named_once_in_a_session_and_again_when_it_changes() -> None:
    following = opened()

    def named_next() -> int:
        following.answer()
        following.send()
        return following.line.sent[-1][0].replica_epoch

    assert [body.replica_epoch for body, _ in following.line.sent] == [1, 1], (
        "of the first full fetch, and then"
    )
    assert named_next() == NO_BROKER_EPOCH
    following.broker_epoch = BrokerEpoch(7)
    assert [named_next(), named_next()] == [7, NO_BROKER_EPOCH]
    following.fetches.forget()
    following.want("a", 5)
    assert named_next() == 7, "the connection is new"


def test_the_id_of_a_topic_is_named_once_in_a_session_and_again_when_it_changes() -> None:
    following = Following()
    one, other = to_wire(FIRST_ID), to_wire(SECOND_ID)
    assert NO_UUID not in (one, other)

    def named_next(topic_id: TopicId) -> bytes:
        following.want("a", len(following.line.sent), topic_id=topic_id)
        following.send()
        named = following.line.ids()["a"]
        following.answer("a")
        return named

    assert [named_next(FIRST_ID), named_next(FIRST_ID)] == [one, NO_UUID]
    assert [named_next(SECOND_ID), named_next(SECOND_ID)] == [other, NO_UUID]
    following.send()  # the partition leaves the session
    following.answer()
    assert [named_next(SECOND_ID), named_next(SECOND_ID)] == [other, NO_UUID]
    following.want("a", 0, topic_id=SECOND_ID)
    following.fetches.reconnected()
    assert named_next(SECOND_ID) == other


def test_while_the_core_waits_for_its_disk_there_is_no_hurry() -> None:
    following = opened()
    following.answer("a")
    following.send(waiting=True)
    assert len(following.line.sent) == 2
    following.want("a", 6)
    following.send(waiting=True)
    assert (following.line.names(), following.line.forgets()) == ([("a", 6)], [])


def test_a_partition_in_a_new_epoch_goes_out_at_once_and_the_answer_before_is_for_its_former_position() -> (
    None
):
    following = opened()
    following.fetches.give_up(partition("a"))
    following.want("a", 3, epoch=2)
    following.send()
    assert (following.line.names(), following.line.forgets()) == ([("a", 3)], [])
    assert following.answer("a") == [("a", 5, 1)]
    assert following.answer("a") == [("a", 3, 2)]


def test_a_partition_that_a_throttle_holds_back_leaves_and_returns_where_it_was() -> None:
    """The other one goes on meanwhile. What the core gives up, or fetches again, is no longer held back."""

    async def scene() -> None:
        following = opened()
        throttle = following.throttle
        throttle.configure("a", EVERY_REPLICA)
        throttle.quota.rate = 0
        throttle.quota.add(1, 0)
        assert following.answer("a", "b") == [("a", 5, 1), ("b", 0, 1)]
        following.want("a", 9)
        following.want("b", 7)
        following.send()
        assert (following.line.names(), following.line.forgets()) == ([("b", 7)], ["a"])
        following.fetches.go_on()
        following.send()
        assert len(following.line.sent) == 3, "it still must wait"
        throttle.quota.rate = 1
        following.fetches.go_on()
        following.send()
        assert (following.line.names(), following.line.forgets()) == ([("a", 9)], [])
        assert following.answer() == following.answer() == []
        throttle.quota.rate = 0
        for end in (following.fetches.give_up, lambda _: following.fetches.reconnected()):
            following.want("a", 9, epoch=2)
            assert following.fetches.held_back
            end(partition("a"))
            assert not following.fetches.held_back
        following.want("a", 9, epoch=2)
        throttle.quota.rate = 1
        following.want("a", 3, epoch=3)
        assert not following.fetches.held_back
        following.send()
        assert following.line.names() == [("a", 3)]
        throttle.close()

    asyncio.run(scene())


def test_a_partition_that_is_answered_twice_is_never_taken_for_a_later_position() -> None:
    """Two requests are under way when the first is answered: the second stood for the same position."""
    following = opened()
    following.want("c", 0)
    following.send()
    assert following.answer("a") == [("a", 5, 1)]
    following.want("a", 6)
    following.send()
    assert following.line.names() == [("a", 6)]
    assert following.answer("a", "c") == [("a", 5, 1), ("c", 0, 1)]
    assert following.answer("a") == [("a", 6, 1)]


def test_a_partition_that_is_given_up_is_forgotten_at_once_even_in_the_same_position_again() -> None:
    following = opened()
    following.fetches.give_up(partition("b"))
    following.send()
    assert (following.line.names(), following.line.forgets()) == ([], ["b"])
    following.answer()
    following.fetches.give_up(partition("a"))
    following.want("a", 5)
    following.send()
    assert (following.line.names(), following.line.forgets()) == ([("a", 5)], [])


def test_what_becomes_due_while_the_session_is_opened_makes_the_leader_answer() -> None:
    following = Following()
    following.want("a", 0)
    following.send()
    following.want("b", 0)
    following.send()
    following.send()
    (opening, _), (empty, _) = following.line.sent
    assert (opening.session_epoch, empty.session_epoch, empty.min_bytes, empty.topics) == (0, -1, 0, [])
    following.answer("a")
    following.want("a", 0)
    following.send()
    assert following.line.names() == [("b", 0)]
    assert following.answer(session=0) == [], "of the empty request"


def test_without_a_session_everything_unanswered_is_named_again() -> None:
    for error in (GONE, WRONG_EPOCH):
        following = opened()
        following.want("c", 0)
        following.fetches.give_up(partition("b"))
        assert following.answer(error=error, session=0) == []
        following.send()
        body, _ = following.line.sent[-1]
        assert (body.session_id, body.session_epoch) == (9, 0)
        assert sorted(following.line.names()) == [("a", 5), ("c", 0)]
    following = Following()
    for offset in range(3):
        following.want("a", offset)
        following.send()
        assert following.line.names() == [("a", offset)]
        assert following.answer("a", session=0) == [("a", offset, 1)], "the leader has no room"
