"""Fetch sessions (KIP-227): a client that fetches again and again names only what has changed.

A full fetch with epoch 0 opens a session: the broker remembers the partitions with their positions, and what
it answered last. Later requests carry the session's id and the next epoch, and name only partitions that are
new, have another position, or leave. The answer has only partitions with records, with an error, or with
another high watermark or log start than the client knows.

Rules of the file, as in Kafka:

* An epoch is used once. A request with another epoch than the next one was repeated, delayed, or follows one
  that was lost, and gets INVALID_FETCH_SESSION_EPOCH; one for a session that is gone gets
  FETCH_SESSION_ID_NOT_FOUND. The client then begins again with a full fetch. No state of replication is here:
  a lost session costs one larger request.
* There are ``max.incremental.fetch.session.cache.slots`` sessions. When all are in use, a new one takes the
  place of one that was not used for two minutes; a follower's takes that of a consumer; any takes that of a
  smaller one of its kind that is older than two minutes. Otherwise the client gets no session, and names all
  its partitions each time.

Since version 13 clients name topics by id. A session keeps the name, and the id for the answers; a topic
whose id is not known yet is ``nameless``, and looked for again with each request.

Beyond Kafka: all sessions together hold at most ``PARTITIONS_MAX`` partitions, because clients choose their
number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.core.messages import FetchResponse
from tidelog.core.topic_ids import from_wire
from tidelog.core.types import NO_LEADER, Millis, TopicId, TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, ForgottenTopic
from tidelog.wire.one_partition import FetchOfOne
from tidelog.wire.schema import NO_UUID

NO_SESSION = 0
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
EPOCH_MAX = ID_MAX = 0x7FFFFFFF
EVICTION_MS: Millis = 120_000
PARTITIONS_MAX = 200_000
_AT_ONCE = 100
"""Partitions that are read from a request between two yields."""


def next_epoch(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1


class CachedPartition:
    """A partition as the client last named it, and what it was last answered."""

    __slots__ = ("_high_watermark", "_start", "epoch", "max_bytes", "offset", "replica_start")

    def __init__(self, part: FetchPartition) -> None:
        self._high_watermark = self._start = -1
        self.update(part)

    def update(self, part: FetchPartition | FetchOfOne) -> None:
        self.offset = part.fetch_offset
        self.epoch = part.current_leader_epoch
        self.replica_start = part.log_start_offset
        self.max_bytes = part.partition_max_bytes

    def is_answered_by(self, response: FetchResponse) -> bool:
        """Whether this answers what the client last named."""
        return response.offset == self.offset and response.current_leader_epoch == self.epoch

    def knows(self, high_watermark: int, start: int) -> bool:
        return self._high_watermark == high_watermark and self._start == start

    def not_sent(self) -> None:
        """What ``answer`` noted was not sent: the next answer has it."""
        self._high_watermark = -1

    def request(self, number: int) -> FetchPartition:
        """The partition as if the client had named it."""
        return FetchPartition(
            partition=number,
            current_leader_epoch=self.epoch,
            fetch_offset=self.offset,
            log_start_offset=self.replica_start,
            partition_max_bytes=self.max_bytes,
        )

    def answer(self, response: FetchResponse, *, has_records: bool) -> bool:
        """Note what is answered. Returns whether it must be in the answer. After an error the partition is
        always in the next answer too, so that the client learns that the error is over."""
        high_watermark, start = response.high_watermark, response.log_start_offset
        failed = response.error is not ErrorCode.NONE
        changed = self._high_watermark != high_watermark or self._start != start
        self._high_watermark = -1 if failed else high_watermark
        self._start = start
        return has_records or changed or failed or response.preferred != NO_LEADER


Partitions = dict[TopicPartition, CachedPartition]
TopicIds = dict[str, bytes]
"""The ids of topics by their names, as the wire has them."""


def nameless(topic_id: bytes) -> str:
    """In the place of the name of a topic whose id is not known: no topic can have such a name."""
    return f"?{from_wire(topic_id)}"


def is_nameless(name: str) -> bool:
    return name[:1] == "?"


class FetchSession:
    __slots__ = ("by_id", "created_at", "epoch", "id", "partitions", "privileged", "topic_ids", "used_at")

    def __init__(self, number: int, partitions: Partitions, now: Millis, *, privileged: bool) -> None:
        self.id = number
        self.epoch = 1
        """The epoch of the next request."""
        self.partitions = partitions
        self.privileged = privileged
        """A follower's."""
        self.by_id = False
        """Whether requests and answers name topics by their ids (version 13)."""
        self.topic_ids: TopicIds = {}
        self.created_at = self.used_at = now

    def resolve(self, names: Mapping[TopicId, str]) -> None:
        """Topics whose ids were not known may be known now."""
        if not any(map(is_nameless, self.topic_ids)):
            return
        for tp in [tp for tp in self.partitions if is_nameless(tp.topic)]:
            topic_id = self.topic_ids[tp.topic]
            name = names.get(from_wire(topic_id))
            if name is not None:
                self.topic_ids[name] = topic_id
                self.partitions.setdefault(TopicPartition(name, tp.partition), self.partitions.pop(tp))

    def identify(self, topic: str, topic_id: bytes) -> bool:
        """Note the id by which a request names a topic. True if another topic has the name now."""
        before = self.topic_ids.get(topic, topic_id)
        self.topic_ids[topic] = topic_id
        return before != topic_id

    def name_of(self, forgotten: ForgottenTopic) -> str:
        """Its topic may be deleted, so it is looked for here."""
        if not self.by_id:
            return forgotten.topic
        wanted = forgotten.topic_id
        return next((name for name, topic_id in self.topic_ids.items() if topic_id == wanted), "")

    def prune(self) -> None:
        if len(self.topic_ids) > len(self.partitions):
            kept = {tp.topic for tp in self.partitions}
            self.topic_ids = {name: topic_id for name, topic_id in self.topic_ids.items() if name in kept}

    @property
    def value(self) -> tuple[bool, int, int]:
        """The session with the smallest value is the first to make room for another."""
        return self.privileged, len(self.partitions), self.id

    def named(self, tp: TopicPartition) -> None:
        """The client has added or changed this partition."""

    def left(self, tp: TopicPartition) -> None:
        """The client has removed this partition."""

    def ended(self) -> None:
        """The session is closed."""

    def moves_to_the_end(self, tp: TopicPartition) -> None:
        """Its records were sent: next time other partitions come first."""
        if tp in self.partitions:
            self.partitions[tp] = self.partitions.pop(tp)


class SessionType(Protocol):
    def __call__(
        self, number: int, partitions: Partitions, now: Millis, *, privileged: bool
    ) -> FetchSession: ...


class FetchSessions:
    def __init__(
        self, slots: int, clock: Callable[[], Millis], *, partitions_max: int = PARTITIONS_MAX
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._partitions_max = partitions_max
        self._sessions: dict[int, FetchSession] = {}
        """The least recently used first."""
        self.partitions = 0
        """Of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self,
        partitions: Partitions,
        *,
        privileged: bool,
        session_type: SessionType = FetchSession,
        topic_ids: TopicIds | None = None,
        by_id: bool = False,
    ) -> int:
        """Open a session for partitions that were just answered. Returns its id; ``NO_SESSION`` if there is
        no room."""
        now = self._clock()
        if not partitions or self.partitions + len(partitions) > self._partitions_max:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now, privileged):
            return NO_SESSION
        number = random.randint(1, ID_MAX)
        while number in self._sessions:
            number = random.randint(1, ID_MAX)
        session = self._sessions[number] = session_type(number, partitions, now, privileged=privileged)
        session.topic_ids, session.by_id = topic_ids or {}, by_id
        self.partitions += len(partitions)
        return number

    def use(self, number: int, epoch: int) -> FetchSession | ErrorCode:
        """The session for a request with this epoch, or the error of the request."""
        session = self._sessions.get(number)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.used(session, self._clock())
        return session

    def get(self, number: int) -> FetchSession | None:
        return self._sessions.get(number)

    def used(self, session: FetchSession, now: Millis) -> None:
        """The session has a request with the epoch that it expects."""
        session.epoch = next_epoch(session.epoch)
        session.used_at = now
        sessions = self._sessions
        sessions[session.id] = sessions.pop(session.id)

    def close(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            session.ended()

    def update(self, session: FetchSession, body: FetchRequest) -> Steps[bool]:
        """Add and remove what the request names. Returns False if the session is closed, because all of them
        hold too much."""
        partitions, before, count = session.partitions, len(session.partitions), 0
        for topic in body.topics:
            other = topic.topic_id != NO_UUID and session.identify(topic.topic, topic.topic_id)
            for part in topic.partitions:
                tp = TopicPartition(topic.topic, part.partition)
                known = partitions.get(tp)
                if known is None or other:
                    partitions[tp] = CachedPartition(part)
                else:
                    known.update(part)
                session.named(tp)
                count += 1
                if not count % _AT_ONCE:
                    before = self._recount(session, before)
                    yield
        for forgotten in body.forgotten_topics_data:
            name = session.name_of(forgotten)
            for number in forgotten.partitions:
                tp = TopicPartition(name, number)
                if partitions.pop(tp, None) is not None:
                    session.left(tp)
                count += 1
                if not count % _AT_ONCE:
                    before = self._recount(session, before)
                    yield
        session.prune()
        self._recount(session, before)
        if self.partitions > self._partitions_max or session.id not in self._sessions:
            self.close(session.id)
            return False
        return True

    def _recount(self, session: FetchSession, before: int) -> int:
        now = len(session.partitions)
        if session.id in self._sessions:
            self.partitions += now - before
        return now

    def _evict(self, size: int, now: Millis, privileged: bool) -> bool:
        """Close a session that is worth less than a new one of this size; False if there is none."""
        if not self._sessions:
            return False
        stalest = next(iter(self._sessions.values()))
        if now - stalest.used_at > EVICTION_MS:
            self.close(stalest.id)
            return True
        candidates = [
            session
            for session in self._sessions.values()
            if now - session.created_at > EVICTION_MS or (privileged and not session.privileged)
        ]
        least = min(candidates, key=lambda session: session.value, default=None)
        if least is None or (privileged, size, NO_SESSION) < least.value:
            return False
        self.close(least.id)
        return True
