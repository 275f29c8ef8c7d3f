"""Fetch (1): consumers read committed records, followers read all records and thereby acknowledge them.

Behaviour: the core gets a request for every partition, and answers at once or parks it until there are
records or the time is up. The whole request is answered as soon as the parts together have ``min_bytes``, or
one has failed; parts that are still parked then answer with what they have. A follower's next request
releases the one before, so that it can add partitions without waiting. When a client disconnects, its parked
requests are dropped. The isolation level is accepted; without transactions it has no effect.
In a fetch session (KIP-227, ``fetch_sessions.py``) a request asks for all partitions of the session, and the
answer has those that changed. The requests of a follower's session are handled in ``replica_session.py``.
Since version 13 topics are named by id (KIP-516). UNKNOWN_TOPIC_ID if the metadata has none with it,
INCONSISTENT_TOPIC_ID if the replica here is of an earlier or later topic of the same name. Followers name
topics by both.
Since version 11 a consumer is also answered by a follower, up to the follower's high watermark, and a leader
sends it to one in its rack if ``replica.selector.class`` says so (KIP-392).
Not done: the diverging epoch in the answer (followers send OffsetForLeaderEpoch before they fetch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.apis import serves
from tidelog.broker.connection import ClientConnection, Request
from tidelog.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    Partitions,
    TopicIds,
    is_nameless,
    nameless,
    next_epoch,
)
from tidelog.broker.replica_session import ReplicaSession, bytes_of, partition_data
from tidelog.core import messages as core
from tidelog.core.topic_ids import from_wire
from tidelog.core.types import NO_LEADER, NO_TOPIC_ID, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.api import Api, RequestHeader
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.one_partition import CLIENT_ID, FETCH_VERSION, read_fetch
from tidelog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.node import Node

_ANY_REPLICA = 11
"""The first version whose consumers may read from a follower."""
_BY_ID = 13
"""The first version that names topics by id."""
_AT_ONCE = 100
"""Partitions that are read from the request, or answered, between two yields."""


def handle_one(node: Node, connection: ClientConnection, frame: bytearray, received_at: float) -> bool:
    """A follower that names the next position of one partition of its session."""
    named = read_fetch(frame)
    if named is None:
        return False
    session = node.fetch_sessions.get(named.session_id)
    if not isinstance(session, ReplicaSession):
        return False
    tp, now = TopicPartition(named.topic, named.partition), node.now()
    if not session.expects(tp, named, now):
        return False
    node.fetch_sessions.used(session, now)
    header = RequestHeader(Api.FETCH, FETCH_VERSION, named.correlation_id, CLIENT_ID)
    request = Request(connection, header, None, received_at)
    connection.enqueue(request)
    session.serve_one(request, tp, named, now)
    return True


@serves(Api.FETCH, shortcut=handle_one)
def handle(node: Node, request: Request) -> Steps[None]:
    body: FetchRequest = request.body
    if request.header.api_version >= _BY_ID:
        if body.replica_state.replica_id >= 0:
            body.replica_id, body.replica_epoch = (
                body.replica_state.replica_id,
                body.replica_state.replica_epoch,
            )
        yield from _name_topics(node, body)
    else:
        for topic in body.topics:
            topic.topic_id = topic.followed_topic_id
    session = None
    if body.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        node.fetch_sessions.close(body.session_id)
    else:
        session = yield from _session(node, body, by_id=request.header.api_version >= _BY_ID)
    if isinstance(session, ErrorCode):
        node.metrics.error_answered(Api.FETCH, session)
        request.respond_at_once(FetchResponse(error_code=session, responses=[]), failed=True)
        return
    if isinstance(session, ReplicaSession):
        yield from session.serve(request, body)
        return
    pending = PendingFetch(node, request, body, session)
    request.on_abandoned = pending.abandon
    if session is None:
        yield from _ask_named(node, pending, body)
    else:
        yield from _ask_session(node, pending, session)
    pending.asked_all()


def _name_topics(node: Node, body: FetchRequest) -> Steps[None]:
    names = node.core.metadata.topic_names
    for count, topic in enumerate(body.topics, 1):
        topic.topic = names.get(from_wire(topic.topic_id)) or nameless(topic.topic_id)
        if not count % _AT_ONCE:
            yield


def _session(node: Node, body: FetchRequest, *, by_id: bool) -> Steps[FetchSession | ErrorCode | None]:
    """The session of the request, with what the request changes in it. A session that becomes empty ends."""
    sessions = node.fetch_sessions
    session = sessions.use(body.session_id, body.session_epoch)
    if isinstance(session, ErrorCode):
        return session
    if session.by_id is not by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    if by_id:
        session.resolve(node.core.metadata.topic_names)
    if not (yield from sessions.update(session, body)):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.partitions:
        return session
    sessions.close(session.id)
    return None


def _ask_named(node: Node, pending: PendingFetch, body: FetchRequest) -> Steps[None]:
    yield from pending.name(body)
    pending.may_be_superseded()
    for topic in body.topics:
        for part in topic.partitions:
            pending.ask(TopicPartition(topic.topic, part.partition), part)
            node.carry_out()
            yield
        yield


def _ask_session(node: Node, pending: PendingFetch, session: FetchSession) -> Steps[None]:
    known = list(session.partitions.items())
    yield from pending.name_known(tp for tp, _ in known)
    pending.may_be_superseded()
    for tp, part in known:
        pending.ask(tp, part.request(tp.partition))
        node.carry_out()
        yield


class PendingFetch:
    """A request in progress, with one part per partition."""

    __slots__ = (
        "_asking",
        "_batches",
        "_budget",
        "_bytes",
        "_cached",
        "_deadline",
        "_done",
        "_failed",
        "_finishing",
        "_from_any_replica",
        "_held_back",
        "_min_bytes",
        "_node",
        "_parked",
        "_rack",
        "_replica",
        "_replica_epoch",
        "_request",
        "_responses",
        "_session",
        "_session_epoch",
        "_topic_ids",
        "_topics",
    )

    def __init__(
        self, node: Node, request: Request, body: FetchRequest, session: FetchSession | None
    ) -> None:
        self._node = node
        self._session = session
        self._session_epoch = body.session_epoch
        self._cached: Partitions | None = {} if body.session_epoch == INITIAL_EPOCH else None
        """What the session is to hold that this request opens."""
        self._request = request
        self._replica = BrokerId(body.replica_id)
        self._from_any_replica = body.replica_id < 0 and request.header.api_version >= _ANY_REPLICA
        self._rack = body.rack_id
        self._replica_epoch = BrokerEpoch(body.replica_epoch)
        self._min_bytes = body.min_bytes
        self._deadline = node.now() + body.max_wait_ms
        self._budget = min(body.max_bytes, node.settings.fetch_max_bytes)
        self._topic_ids: TopicIds = {} if session is None else session.topic_ids
        self._topics: list[tuple[str, list[int]]] = []
        self._asking = True
        """Some parts have not been sent to the core yet."""
        self._bytes = 0
        self._failed = False
        self._held_back = False
        """A throttle does not let records pass: a follower waits, as if there were none."""
        self._finishing = False
        self._done = False
        self._parked: dict[TopicPartition, FetchPartition] = {}
        """Parts that the core has not answered yet."""
        self._responses: dict[TopicPartition, core.FetchResponse] = {}
        self._batches: dict[TopicPartition, list[Any]] = {}

    @property
    def sender(self) -> str:
        return self._request.sender

    def name(self, body: FetchRequest) -> Steps[None]:
        """Register the partitions of the answer, each once. The parts themselves are not kept: they refer to
        the frame."""
        named: set[tuple[str, int]] = set()
        count = 0
        for topic in body.topics:
            numbers: list[int] = []
            self._topics.append((topic.topic, numbers))
            if topic.topic_id != NO_UUID:
                self._topic_ids[topic.topic] = topic.topic_id
            for part in topic.partitions:
                numbers.append(part.partition)
                named.add((topic.topic, part.partition))
                if self._cached is not None:
                    self._cached[TopicPartition(topic.topic, part.partition)] = CachedPartition(part)
                count += 1
                if not count % _AT_ONCE:
                    yield
            if not len(self._topics) % _AT_ONCE:
                yield
        if count != len(named):
            raise ProtocolError("a fetch request that names a partition twice")

    def name_known(self, known: Iterable[TopicPartition]) -> Steps[None]:
        """Register the partitions of a session, in its order."""
        topics: dict[str, list[int]] = {}
        for count, tp in enumerate(known, 1):
            topics.setdefault(tp.topic, []).append(tp.partition)
            if not count % _AT_ONCE:
                yield
        self._topics += topics.items()

    def may_be_superseded(self) -> None:
        """A follower's next request makes this one answer."""
        if self._replica >= 0:
            self._request.on_superseded = self.finish

    # ------------------------------------------------------------ asking

    def ask(self, tp: TopicPartition, part: FetchPartition) -> None:
        self._parked[tp] = part
        topic_id = NO_TOPIC_ID
        if self._topic_ids:
            if is_nameless(tp.topic):
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
                epoch = LeaderEpoch(part.current_leader_epoch)
                self.deliver(core.FetchResponse(tp, unknown, part.fetch_offset, epoch))
                return
            topic_id = from_wire(self._topic_ids.get(tp.topic, NO_UUID))
        wait = 0 if self._enough else max(self._deadline - self._node.now(), 0)
        self._node.ask(
            self,
            core.FetchRequest(
                tp,
                self._replica,
                part.fetch_offset,
                LeaderEpoch(part.current_leader_epoch),
                wait,
                self._replica_epoch,
                max(min(part.partition_max_bytes, self._budget - self._bytes), 0),
                part.log_start_offset,
                self._from_any_replica,
                topic_id,
                self._rack,
            ),
        )

    @property
    def _enough(self) -> bool:
        return self._failed or self._bytes >= self._min_bytes

    def asked_all(self) -> None:
        self._asking = False
        if self._enough or not self._waits or self._deadline <= self._node.now():
            self.finish()
        elif self._held_back:
            asyncio.get_running_loop().call_at(self._deadline / 1000, self._waited)

    @property
    def _waits(self) -> bool:
        return bool(self._parked) or self._held_back

    def _waited(self) -> None:
        self.finish()
        self._node.settle()

    # ------------------------------------------------------------ answers

    def deliver(self, response: core.FetchResponse) -> None:
        tp = response.tp
        part = self._parked.pop(tp)
        self._responses[tp] = response
        if response.error is not ErrorCode.NONE:
            self._failed = True
            self._node.metrics.error_answered(Api.FETCH, response.error)
            self._batches.pop(tp, None)
        if response.preferred != NO_LEADER:
            self._min_bytes = 0  # a consumer that is to read elsewhere does not wait here
        batches = response.batches
        if batches and self._replica >= 0 and self._is_held_back(response):
            self._held_back = True
            batches = ()
        if batches and (self._bytes < self._budget or not self._bytes):
            self._bytes += bytes_of(response)
            self._batches.setdefault(tp, []).extend(batches)
            if not self._enough and not self._finishing:
                # A consumer with a larger ``min_bytes`` waits: continue to read behind these records.
                part.fetch_offset = batches[-1].next_offset
                self.ask(tp, part)
                return
        if self._finishing:
            self._respond_if_complete()
        elif self._enough or not self._waits or self._node.now() >= self._deadline:
            self._node.when_settled(self.finish)

    def _is_held_back(self, response: core.FetchResponse) -> bool:
        throttle = self._node.throttles.leader
        return bool(throttle.topics) and not throttle.passes(response, self._replica)

    def finish(self) -> None:
        """Answer now. Parked parts are released and add what they have. If not all parts have been sent to
        the core yet, the last one finishes."""
        if self._asking or self._finishing:
            return
        self._finishing = True
        for tp in list(self._parked):
            self._node.core.release_fetch(self, tp)
        self._respond_if_complete()

    def abandon(self) -> None:
        """The client is gone: drop the parked parts."""
        self._finishing = self._done = True
        for tp in list(self._parked):
            self._node.core.release_fetch(self, tp)

    def _respond_if_complete(self) -> None:
        if self._parked or self._done:
            return
        self._done = True
        session = self._session
        if session is not None and session.epoch != next_epoch(self._session_epoch):
            # A later request of the session overtook this one, on another connection.
            error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            self._request.respond_at_once(FetchResponse(error_code=error, responses=[]), failed=True)
        elif len(self._topics) + len(self._responses) <= _AT_ONCE:
            topics = []
            for name, numbers in self._topics:
                parts = self._parts(name, numbers)
                if parts or session is None:
                    topic_id = self._topic_ids.get(name, NO_UUID)
                    topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts))
            response = FetchResponse(session_id=self._session_id(), responses=topics)
            self._request.respond_at_once(response, failed=self._failed)
        else:
            self._request.respond_with(self._long_answer(), failed=self._failed)

    def _long_answer(self) -> Steps[FetchResponse]:
        topics: list[FetchableTopicResponse] = []
        for count, (name, numbers) in enumerate(self._topics, 1):
            parts: list[PartitionData] = []
            for start in range(0, len(numbers), _AT_ONCE):
                parts += self._parts(name, numbers[start : start + _AT_ONCE])
                if len(numbers) > _AT_ONCE:
                    yield
            if parts or self._session is None:
                topic_id = self._topic_ids.get(name, NO_UUID)
                topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts))
            if not count % _AT_ONCE:
                yield
        return FetchResponse(session_id=self._session_id(), responses=topics)

    def _session_id(self) -> int:
        """The session that the client is to use. It is opened with the answer, as in Kafka."""
        if self._session is not None:
            return self._session.id
        if self._cached is None:
            return NO_SESSION
        sessions = self._node.fetch_sessions
        follower = self._replica >= 0
        return sessions.create(
            self._cached,
            privileged=follower,
            session_type=partial(ReplicaSession, self._node, self._replica) if follower else FetchSession,
            topic_ids=self._topic_ids,
            by_id=self._request.header.api_version >= _BY_ID,
        )

    def _parts(self, topic: str, numbers: Iterable[int]) -> list[PartitionData]:
        if self._session is None and self._cached is None:
            return [self._part(topic, number) for number in numbers]
        return [self._part(topic, number) for number in numbers if self._is_news(topic, number)]

    def _is_news(self, topic: str, number: int) -> bool:
        """Whether the partition is in the answer. A request that opens a session is answered in full."""
        tp, session = TopicPartition(topic, number), self._session
        has_records = tp in self._batches
        if session is None:
            assert self._cached is not None
            self._cached[tp].answer(self._responses[tp], has_records=has_records)
            return True
        known = session.partitions.get(tp)
        if known is None:
            return False
        if has_records:
            session.moves_to_the_end(tp)
        return known.answer(self._responses[tp], has_records=has_records)

    def _part(self, topic: str, number: int) -> PartitionData:
        tp = TopicPartition(topic, number)
        return partition_data(self._responses[tp], self._batches.get(tp, ()))
