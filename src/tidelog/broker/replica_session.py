"""The fetch session of a follower at its leader: a quiet partition costs nothing per request.

A follower has one request at its leader at a time, for all the partitions that it follows there. In its
session (``fetch_sessions.py``) each partition has a fetch of its own in the core, which stays parked over
many requests: only partitions that were answered, or that a request names, are put to the core again.

Rules of the file:

* A parked fetch says that the follower is there, so it is renewed: after ``max_wait_ms`` the next request
  renews all of them. A leader thus hears of each partition as often as from a follower that names it in every
  request. Without a request nothing is renewed: a follower that hangs falls out of the ISR.
* High watermarks and log starts that moved are sent with records, otherwise when the request has waited for
  ``max_wait_ms``, or at the renewal. A fetch that is just parked waits for the next one, as in the lab: a
  follower's high watermark lags behind its leader's.
* What the core answers while no request waits is kept for the next one, up to the size of an answer.
* What a throttle holds back is put to the core again with the next request that comes when more may pass.
* A partition leaves the session, and its fetch the core, when the follower says so: the follower has given it
  up, or waits before it tries again.
* The session ends with the connection, or when no request came for ten seconds. The follower then fetches in
  full, as after any error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.broker.connection import Request
from tidelog.broker.fetch_sessions import FetchSession, Partitions
from tidelog.core import messages as core
from tidelog.core.topic_ids import from_wire
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Millis,
    TopicPartition,
)
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.batch import size_of
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.one_partition import FETCH_VERSION, NAME_BYTES_MAX, FetchOfOne, write_fetched
from tidelog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.core.replication.replica import Replica

IDLE_MS: Millis = 10_000
_AT_ONCE = 50
"""Partitions that are renewed or answered between two yields."""


def partition_data(response: core.FetchResponse, batches: Iterable[Any]) -> PartitionData:
    return PartitionData(
        partition_index=response.tp.partition,
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        log_start_offset=response.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=response.preferred,
        records=[batch.data for batch in batches] or b"",
    )


def bytes_of(response: core.FetchResponse) -> int:
    return size_of(response.batches)  # type: ignore[arg-type]  # a broker's logs have these batches


class ReplicaSession(FetchSession):
    __slots__ = (
        "_asking",
        "_away",
        "_broker_epoch",
        "_budget",
        "_bytes",
        "_deadline",
        "_due",
        "_held_back",
        "_node",
        "_parked",
        "_ready",
        "_renewal_at",
        "_replica",
        "_request",
        "_timer",
        "_wait_s",
    )

    def __init__(
        self,
        node: Node,
        replica: BrokerId,
        number: int,
        partitions: Partitions,
        now: Millis,
        *,
        privileged: bool,
    ) -> None:
        super().__init__(number, partitions, now, privileged=privileged)
        self._node = node
        self._replica = replica
        self._broker_epoch = NO_BROKER_EPOCH
        self._budget = node.settings.fetch_max_bytes
        self._due: dict[TopicPartition, None] = dict.fromkeys(partitions)
        """To be put to the core with the next request."""
        self._away: dict[TopicPartition, None] = {}
        """Answered when the next request was here already. That one does not know the answer, so it says
        nothing about these partitions."""
        self._parked: dict[TopicPartition, None] = {}
        """Put to the core, and not answered."""
        self._ready: dict[TopicPartition, core.FetchResponse] = {}
        """Answered by the core, for the next answer."""
        self._held_back: dict[TopicPartition, None] = {}
        """Answered by the core, but a throttle does not let the records pass. To be put to it again."""
        self._bytes = 0
        """Of the records in ``_ready``."""
        self._request: Request | None = None
        """The request that waits."""
        self._asking = False
        """Some partitions of the request have not been put to the core yet."""
        self._deadline = self._renewal_at = now
        self._wait_s = 0.5
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    # ------------------------------------------------------------ requests

    def expects(self, tp: TopicPartition, named: FetchOfOne, now: Millis) -> bool:
        """Whether ``serve_one`` can serve a request that names only this partition: there is nothing else to
        do with it."""
        due = self._due
        return (
            self.epoch == named.session_epoch
            and self._replica == named.replica_id
            and tp in self.partitions
            and now < self._renewal_at
            and self._request is None
            and len(due) == (tp in due)
            and not self._away
            and not self._held_back
            and not self.by_id
            and named.min_bytes > 0
            and named.max_wait_ms > 0
        )

    def serve_one(self, request: Request, tp: TopicPartition, named: FetchOfOne, now: Millis) -> None:
        self._take(request, named, now)
        self.partitions[tp].update(named)
        self.left(tp)
        self._ask(tp, now)
        if self._ready:  # answered while no request waited
            self._node.carry_out()
            self._finish()
        if self._timer is None:
            self._wait()

    def _take(self, request: Request, body: FetchRequest | FetchOfOne, now: Millis) -> None:
        self._request = request
        request.on_abandoned = self._abandoned
        request.on_superseded = self._superseded
        self._budget = min(body.max_bytes, self._node.settings.fetch_max_bytes)
        self._deadline = now + body.max_wait_ms
        self._wait_s = min(max(body.max_wait_ms, 10), IDLE_MS) / 1000

    def serve(self, request: Request, body: FetchRequest) -> Steps[None]:
        node, now = self._node, self._node.now()
        if self._request is not None:  # on another connection
            self._refuse(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._take(request, body, now)
        self._asking = True
        if body.replica_epoch not in (NO_BROKER_EPOCH, self._broker_epoch):
            self._broker_epoch = BrokerEpoch(body.replica_epoch)
            for tp in list(self._parked):
                self.named(tp)
        due, parked = list(self._due), list(self._parked) if now >= self._renewal_at else None
        self._due |= self._away
        self._away = {}
        for tp in due:
            if tp in self._due:
                del self._due[tp]
                self._ask(tp, node.now())
                node.carry_out()
                yield
                if self._request is not request:
                    return
        if self._held_back and (parked is not None or not node.throttles.leader.is_exceeded()):
            yield from self._let_through(request)
            if self._request is not request:
                return
        if parked is not None:
            self._renewal_at = self._deadline
            yield from self._renew(parked, now)
            if self._request is not request:
                return
        self._asking = False
        if self._ready or body.min_bytes <= 0 or body.max_wait_ms <= 0:
            self._finish()
        if self._timer is None:
            self._wait()

    def _let_through(self, request: Request) -> Steps[None]:
        """Put what was held back to the core again, one after the other, as long as more may pass. What is
        held back again has its turn after the others."""
        node = self._node
        for tp in list(self._held_back):
            if tp in self._held_back and not node.throttles.leader.holds_back(tp, self._replica):
                del self._held_back[tp]
                self._ask(tp, node.now())
                node.carry_out()
                yield
                if self._request is not request:
                    return

    def _ask(self, tp: TopicPartition, now: Millis) -> None:
        throttle = self._node.throttles.leader
        full = self._bytes >= self._budget or (
            # One batch is read, and does not pass. The core learns the position, as from any fetch.
            throttle.topics and throttle.holds_back(tp, self._replica)
        )
        part = self.partitions[tp]
        self._parked[tp] = None
        self._node.core.receive(
            self,
            core.FetchRequest(
                tp,
                self._replica,
                part.offset,
                LeaderEpoch(part.epoch),
                core.FOREVER,
                self._broker_epoch,
                0 if full else part.max_bytes,
                part.replica_start,
                topic_id=from_wire(self.topic_ids.get(tp.topic, NO_UUID)),
            ),
            now,
        )

    def _renew(self, parked: list[TopicPartition], now: Millis) -> Steps[None]:
        """The follower asks again for what earlier requests have parked."""
        node = self._node
        renew = node.core.renew_fetch
        for count, tp in enumerate(parked, 1):
            if tp not in self._parked:
                continue
            self._release_if_moved(tp, renew(self, tp, now))
            if not count % _AT_ONCE:
                node.carry_out()
                yield
        node.carry_out()

    def _release_if_moved(self, tp: TopicPartition, replica: Replica | None) -> None:
        """Answer with a high watermark or a log start that the follower does not know."""
        part = self.partitions.get(tp)
        if replica is not None and part is not None:
            if part.knows(replica.high_watermark, replica.log.start_offset):
                return
            self._node.core.release_fetch(self, tp)

    # ------------------------------------------------------------ the core's answers

    def deliver(self, response: core.FetchResponse) -> None:
        tp = response.tp
        part = self.partitions.get(tp)
        if part is None or tp not in self._parked or not part.is_answered_by(response):
            return
        del self._parked[tp]
        batches = response.batches
        if response.error is not ErrorCode.NONE:
            self._node.metrics.error_answered(Api.FETCH, response.error)
        elif batches:
            if self._bytes >= self._budget > 0:
                self._due[tp] = None
                return
            throttle = self._node.throttles.leader
            if throttle.topics and not throttle.passes(response, self._replica):
                self._held_back[tp] = None
                return
            self._bytes += bytes_of(response)
        if not part.answer(response, has_records=bool(batches)):
            self._due[tp] = None
            return
        if not self._ready and not self._asking:
            self._node.when_settled(self._send_ready)
        self._ready[tp] = response

    def _send_ready(self) -> None:
        if self._ready:
            self._finish()

    def _superseded(self) -> None:
        if self._request is not None and not self._asking:
            self._away |= dict.fromkeys(self._ready)
            self._finish()
            for tp in self._away:
                self._due.pop(tp, None)

    def _finish(self) -> None:
        """Answer now, with what there is."""
        request = self._request
        if request is None or self._asking:
            return
        self._request = None
        ready, self._ready, self._bytes = self._ready, {}, 0
        if len(ready) == 1 and self._answered_one(request, ready):
            return
        failed = False
        for tp, response in ready.items():
            self._due[tp] = None
            failed = failed or response.error is not ErrorCode.NONE
        if len(ready) <= _AT_ONCE:
            topics: dict[str, list[PartitionData]] = {}
            for tp, response in ready.items():
                topics.setdefault(tp.topic, []).append(partition_data(response, response.batches))
            request.respond_at_once(self._answer(topics), failed=failed)
        else:
            request.respond_with(self._long_answer(ready), failed=failed)

    def _answered_one(self, request: Request, ready: dict[TopicPartition, core.FetchResponse]) -> bool:
        """Answer for one partition, without objects of the codec."""
        ((tp, response),) = ready.items()
        topic, number = tp
        header = request.header
        if (
            response.error is not ErrorCode.NONE
            or header.api_version != FETCH_VERSION
            or len(topic) > NAME_BYTES_MAX
        ):
            return False
        self._due[tp] = None
        records = [batch.data for batch in response.batches]  # type: ignore[attr-defined]  # as in ``bytes_of``
        moved = (response.high_watermark, response.log_start_offset)
        answer = write_fetched(
            header.correlation_id, self.id, topic, number, *moved, records, sum(map(len, records))
        )
        request.respond_encoded(answer)
        return True

    def _long_answer(self, ready: dict[TopicPartition, core.FetchResponse]) -> Steps[FetchResponse]:
        topics: dict[str, list[PartitionData]] = {}
        for count, (tp, response) in enumerate(ready.items(), 1):
            topics.setdefault(tp.topic, []).append(partition_data(response, response.batches))
            if not count % _AT_ONCE:
                yield
        return self._answer(topics)

    def _answer(self, topics: dict[str, list[PartitionData]]) -> FetchResponse:
        parts = [
            FetchableTopicResponse(topic=name, topic_id=self.topic_ids.get(name, NO_UUID), partitions=parts)
            for name, parts in topics.items()
        ]
        return FetchResponse(session_id=self.id, responses=parts)

    # ------------------------------------------------------------ the end of waiting

    def _wait(self) -> None:
        """One timer serves many requests: most are answered long before it fires."""
        loop = asyncio.get_running_loop()
        if self._request is None:
            self._timer = loop.call_later(self._wait_s, self._waited)
        else:
            self._timer = loop.call_at(max(self._deadline / 1000, loop.time() + 0.001), self._waited)

    def _waited(self) -> None:
        self._timer = None
        now = self._node.now()
        if self._request is None:
            if now >= self.used_at + IDLE_MS:
                self._node.fetch_sessions.close(self.id)
                return
        elif now >= self._deadline and not self._asking:
            self._asking = True
            self._request.go_on(self._tell(self._request))
            self._node.settle()
        if self._timer is None:
            self._wait()

    def _tell(self, request: Request) -> Steps[None]:
        """Answer with the high watermarks and log starts that have moved."""
        node = self._node
        replicas = node.core.replicas
        for count, tp in enumerate(list(self._parked), 1):
            self._release_if_moved(tp, replicas.get(tp))
            if not count % _AT_ONCE:
                yield
        node.carry_out()
        if self._request is request:
            self._asking = False
            self._finish()

    # ------------------------------------------------------------ what the request changes

    def named(self, tp: TopicPartition) -> None:
        self.left(tp)
        self._due[tp] = None

    def left(self, tp: TopicPartition) -> None:
        self._due.pop(tp, None)
        self._away.pop(tp, None)
        self._held_back.pop(tp, None)
        if tp in self._parked:
            del self._parked[tp]
            self._node.core.withdraw_fetch(self, tp)
        elif tp in self._ready:
            self._bytes -= bytes_of(self._ready.pop(tp))
            if tp in self.partitions:
                self.partitions[tp].not_sent()

    def _abandoned(self) -> None:
        self._request = None
        self._node.fetch_sessions.close(self.id)

    def ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._refuse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        for tp in self._parked:
            self._node.core.withdraw_fetch(self, tp)
        self._parked, self._due, self._ready, self._held_back = {}, {}, {}, {}

    def _refuse(self, error: ErrorCode) -> None:
        request, self._request = self._request, None
        if request is not None:
            self._node.metrics.error_answered(Api.FETCH, error)
            request.respond_at_once(FetchResponse(error_code=error, responses=[]), failed=True)
