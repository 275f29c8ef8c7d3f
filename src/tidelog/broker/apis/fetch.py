"""Fetch (1): consumers read committed records, followers read all records and thereby acknowledge them.

Behaviour: the core gets a request for every partition, and answers at once or parks it until there are
records or the time is up. The whole request is answered as soon as the parts together have ``min_bytes``, or
one has failed; parts that are still parked then answer with what they have. A follower's next request
releases the one before, so that it can add partitions without waiting. When a client disconnects, its parked
requests are dropped. The isolation level is accepted; without transactions it has no effect.
Not done: fetch sessions (answered with session 0: the client keeps sending all its partitions), reading from
the nearest replica (KIP-392), the diverging epoch in the answer (followers send OffsetForLeaderEpoch before
they fetch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.types import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

_AT_ONCE = 100
"""Partitions that are read from the request, or answered, between two yields."""


@serves(Api.FETCH)
def handle(node: Node, request: Request) -> Steps[None]:
    body: FetchRequest = request.body
    pending = PendingFetch(node, request, body)
    request.on_abandoned = pending.abandon
    yield from pending.name(body)
    if body.replica_id >= 0:
        request.on_superseded = pending.finish
    for topic in body.topics:
        for part in topic.partitions:
            pending.ask(TopicPartition(topic.topic, part.partition), part)
            node.carry_out()
            yield
        yield
    pending.asked_all()


class PendingFetch:
    """A request in progress, with one part per partition."""

    __slots__ = (
        "_asking",
        "_batches",
        "_budget",
        "_bytes",
        "_deadline",
        "_done",
        "_failed",
        "_finishing",
        "_min_bytes",
        "_node",
        "_parked",
        "_replica",
        "_replica_epoch",
        "_request",
        "_responses",
        "_topics",
    )

    def __init__(self, node: Node, request: Request, body: FetchRequest) -> None:
        self._node = node
        self._request = request
        self._replica = BrokerId(body.replica_id)
        self._replica_epoch = BrokerEpoch(body.replica_epoch)
        self._min_bytes = body.min_bytes
        self._deadline = node.now() + body.max_wait_ms
        self._budget = min(body.max_bytes, node.settings.fetch_max_bytes)
        self._topics: list[tuple[str, list[int]]] = []
        self._asking = True
        """Some parts have not been sent to the core yet."""
        self._bytes = 0
        self._failed = False
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
            for part in topic.partitions:
                numbers.append(part.partition)
                named.add((topic.topic, part.partition))
                count += 1
                if not count % _AT_ONCE:
                    yield
            if not len(self._topics) % _AT_ONCE:
                yield
        if count != len(named):
            raise ProtocolError("a fetch request that names a partition twice")

    # ------------------------------------------------------------ asking

    def ask(self, tp: TopicPartition, part: FetchPartition) -> None:
        self._parked[tp] = part
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
            ),
        )

    @property
    def _enough(self) -> bool:
        return self._failed or self._bytes >= self._min_bytes

    def asked_all(self) -> None:
        self._asking = False
        if not self._parked or self._enough or self._deadline <= self._node.now():
            self.finish()

    # ------------------------------------------------------------ answers

    def deliver(self, response: core.FetchResponse) -> None:
        tp = response.tp
        part = self._parked.pop(tp)
        self._responses[tp] = response
        if response.error is not ErrorCode.NONE:
            self._failed = True
            self._node.metrics.error_answered(Api.FETCH, response.error)
            self._batches.pop(tp, None)
        batches = response.batches
        if batches and (self._bytes < self._budget or not self._bytes):
            self._bytes += sum(batch.size for batch in batches)  # type: ignore[attr-defined]
            self._batches.setdefault(tp, []).extend(batches)
            if not self._enough and not self._finishing:
                # A consumer with a larger ``min_bytes`` waits: continue to read behind these records.
                part.fetch_offset = batches[-1].next_offset
                self.ask(tp, part)
                return
        if self._finishing:
            self._respond_if_complete()
        elif self._enough or not self._parked or self._node.now() >= self._deadline:
            self._node.when_settled(self.finish)

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
        if len(self._topics) + len(self._responses) <= _AT_ONCE:
            topics = [
                FetchableTopicResponse(
                    topic=name, partitions=[self._part(name, number) for number in numbers]
                )
                for name, numbers in self._topics
            ]
            self._request.respond_at_once(FetchResponse(responses=topics), failed=self._failed)
        else:
            self._request.respond_with(self._long_answer(), failed=self._failed)

    def _long_answer(self) -> Steps[FetchResponse]:
        topics: list[FetchableTopicResponse] = []
        for name, numbers in self._topics:
            parts = yield from listed(self._part(name, number) for number in numbers)
            topics.append(FetchableTopicResponse(topic=name, partitions=parts))
            if not len(topics) % _AT_ONCE:
                yield
        return FetchResponse(responses=topics)

    def _part(self, topic: str, number: int) -> PartitionData:
        tp = TopicPartition(topic, number)
        response = self._responses[tp]
        return PartitionData(
            partition_index=number,
            error_code=response.error,
            high_watermark=response.high_watermark,
            last_stable_offset=response.high_watermark,
            log_start_offset=response.log_start_offset,
            aborted_transactions=None,
            records=[batch.data for batch in self._batches.get(tp, ())] or b"",
        )
