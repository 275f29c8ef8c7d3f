"""Kafka's producer: it times out, retries, and records the outcome of each record."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.messages import (
    NO_ERROR,
    Message,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.types import NO_LEADER, NO_PRODUCER, Millis, TopicPartition
from tidelog.scenario.clients.events import (
    Acknowledged,
    ClientError,
    ClientFailure,
    Outcome,
    SendFailed,
    Sent,
)
from tidelog.scenario.clients.metadata import NO_ONE, ClientHost, ClientMetadata
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

_NEVER: Millis = 10**15


@dataclass(slots=True, frozen=True)
class ProducerConfig:
    acks: int = -1
    retries: int = 0
    idempotent: bool = False
    request_timeout_ms: Millis = 5_000
    delivery_timeout_ms: Millis = 60_000
    retry_backoff_ms: Millis = 100
    retry_backoff_max_ms: Millis = 1_000
    batch_records: int = 1
    """At most this many records that are sent together make one batch."""


class Producer:
    """Kafka's producer. A batch is one record, or some that are sent together. Several sends may be in
    flight, as with real clients; an idempotent producer keeps one in flight, the simplest way to keep its
    sequence in order."""

    __slots__ = (
        "_armed",
        "_fruitless",
        "_idle_until",
        "_in_flight",
        "_look_again_at",
        "_next_correlation",
        "_next_sequence",
        "_next_try",
        "_waiting",
        "_world",
        "config",
        "ledger",
        "metadata",
        "name",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, name: str, config: ProducerConfig, world: ClientHost, producer_id: int) -> None:
        self.name = name
        self.config = config
        self.producer_id = producer_id if config.idempotent else NO_PRODUCER
        self.producer_epoch = 0 if config.idempotent else -1
        self.ledger: list[Sent] = []
        self._world = world
        self.metadata = ClientMetadata()
        self._next_correlation = 0
        self._next_sequence: dict[TopicPartition, int] = {}
        self._in_flight: dict[int, tuple[Sent | None, int, Millis]] = {}
        """correlation → (record, or None for a metadata request; broker; time-out)"""
        self._waiting: list[tuple[Millis, Sent]] = []
        """Records that wait for a retry or for metadata, with the time to try again."""
        self._next_try: Millis = 0
        self._idle_until: Millis = 0
        """When the first of them is tried again, and until when nothing is to be done about any of them."""
        self._fruitless = 0
        """How often in a row no leader was found, and when to look again."""
        self._look_again_at: Millis = 0
        self._armed: Millis | None = None
        """When the world was last asked to wake us."""

    # ------------------------------------------------------------ the application's side

    def send(self, tp: TopicPartition, value: str, broker: int | None = None, *rest: str) -> Sent:
        """One batch. ``broker``: where to, whatever the metadata say."""
        deadline = self._world.now + self.config.delivery_timeout_ms
        records = [Sent(self.name, tp, each, self.config.acks, deadline=deadline) for each in (value, *rest)]
        first = records[0]
        first.aimed_at, first.rest = broker, tuple(records[1:])
        if self.config.idempotent:
            for record in records:
                record.sequence = self._next_sequence.get(tp, 0)
                self._next_sequence[tp] = record.sequence + 1
        self.ledger += records
        self._wait(self._world.now, first)
        self._dispatch()
        return first

    @property
    def undecided(self) -> list[Sent]:
        return [record for record in self.ledger if record.outcome is None]

    # ------------------------------------------------------------ sending

    def topic_deleted(self, topic: str) -> None:
        """Its records are promised no longer. Those without an answer may still reach the next topic."""
        self.ledger = [record for record in self.ledger if record.tp.topic != topic or record.outcome is None]
        self._next_sequence = {tp: number for tp, number in self._next_sequence.items() if tp.topic != topic}
        self.metadata.forget(topic)

    def _wait(self, until: Millis, record: Sent) -> None:
        self._waiting.append((until, record))
        self._idle_until = 0

    def _dispatch(self) -> None:
        """Send everything whose time has come to the leader we believe in."""
        if not self._waiting:
            return
        now = self._world.now
        if now < self._idle_until:
            self._arm(self._next_try)
            return
        one_at_a_time, blocked = self.config.idempotent, False
        if one_at_a_time:
            blocked = any(entry[0] is not None for entry in self._in_flight.values())
            self._waiting.sort(key=lambda entry: entry[1].sequence)
        left: list[tuple[Millis, Sent]] = []
        next_try = next_deadline = _NEVER
        for ready_at, record in self._waiting:
            if record.outcome is not None:
                continue
            if now >= record.deadline:
                self._give_up(record, ClientFailure.DELIVERY_TIMED_OUT)
                continue
            again_at = ready_at
            if ready_at <= now and not blocked:
                if self._try(record):
                    blocked = one_at_a_time
                    continue
                again_at = self._look_again_at
            blocked = one_at_a_time
            left.append((again_at, record))
            if now < again_at < next_try:
                next_try = again_at
            next_deadline = min(next_deadline, record.deadline)
        self._waiting = left
        self._next_try = next_try
        self._idle_until = 0 if one_at_a_time else min(next_try, next_deadline)
        if next_try < _NEVER:
            self._arm(next_try)

    def _arm(self, at: Millis) -> None:
        """Ask to be woken at that time, unless an earlier wake-up is arranged already."""
        if self._armed is None or at < self._armed:
            self._armed = at
            self._world.wake_client(self.name, at)

    def _reachable_leader(self, tp: TopicPartition, aimed_at: int | None = None) -> int:
        """The leader we believe in, or the broker that was chosen, if we can connect to it."""
        leader = self.metadata.leaders.get(tp, NO_ONE)[0] if aimed_at is None else aimed_at
        return leader if leader != NO_LEADER and self._world.can_connect(self.name, leader) else NO_LEADER

    def _try(self, record: Sent) -> bool:
        leader = self._reachable_leader(record.tp, record.aimed_at)
        if leader == NO_LEADER:
            # Nothing was sent, so this is not an attempt: look for a leader until the record's time is up.
            now = self._world.now
            if self._look_again_at <= now:
                self._look_again_at = now + self._backoff(self._fruitless)
                self._fruitless += 1
            if not self.metadata.requested:
                self._refresh()
            return False
        self._fruitless = 0
        batch = MemoryBatch(
            record.value,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=record.sequence,
            rest=tuple([each.value for each in record.rest]) if record.rest else (),
        )
        record.attempts += 1
        record.broker = leader
        for each in record.rest:
            each.attempts, each.broker = record.attempts, leader
        message = ProduceRequest(record.tp, record.acks, batch, self.config.request_timeout_ms)
        self._request(leader, message, record)
        if record.acks == 0:
            for each in (record, *record.rest):
                each.outcome = Outcome.OK
                self._world.client_observed(Acknowledged(each))
        return True

    def _request(self, broker: int, message: Message, record: Sent | None) -> None:
        self._next_correlation = correlation = self._next_correlation + 1
        world = self._world
        if record is None or record.acks != 0:
            # The broker's own time-out should be heard before ours.
            timeout_at = world.now + self.config.request_timeout_ms + 1_000
            self._in_flight[correlation] = (record, broker, timeout_at)
            self._arm(timeout_at)
        world.client_sends(self.name, broker, correlation, message)

    def _postpone(self, record: Sent) -> None:
        self._wait(self._world.now + self._backoff(record.attempts - 1), record)

    def _backoff(self, tried: int) -> Millis:
        return min(self.config.retry_backoff_ms << min(tried, 10), self.config.retry_backoff_max_ms)

    def _refresh(self) -> None:
        if not self.metadata.requested:
            broker = self.metadata.choose(self.name, self._world)
            if broker is not None:
                self.metadata.requested = True
                self._request(broker, MetadataRequest(), None)

    # ------------------------------------------------------------ hearing

    def replied(self, correlation: int, message: Message) -> None:
        entry = self._in_flight.pop(correlation, None)
        if entry is None:
            return
        if isinstance(message, MetadataResponse):
            self.metadata.learn(message)
            now = self._world.now
            if self._waiting:
                ready = {tp: self._reachable_leader(tp) != NO_LEADER for tp in self.metadata.leaders}
                self._waiting = [(now if ready.get(r.tp) else at, r) for at, r in self._waiting]
                self._idle_until = 0
        elif isinstance(message, ProduceResponse) and entry[0] is not None:
            self._answered(entry[0], message)
        self._dispatch()

    def _answered(self, record: Sent, response: ProduceResponse) -> None:
        error = response.error
        if record.outcome is not None:
            return
        if error is NO_ERROR:
            for index, each in enumerate((record, *record.rest)):
                each.outcome = Outcome.OK
                each.offset = response.base_offset + index
                self._world.client_observed(Acknowledged(each))
            return
        record.base_offset = response.base_offset
        if error is not ErrorCode.NOT_ENOUGH_REPLICAS:
            record.in_doubt = True  # every other error may come after the append
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.metadata.leaders.pop(record.tp, None)
            self._refresh()
        self._retry_or_give_up(record, error, retriable=error.retriable)

    def _retry_or_give_up(self, record: Sent, error: ClientError, *, retriable: bool) -> None:
        if retriable and record.attempts <= self.config.retries and self._world.now < record.deadline:
            record.error = error
            self._postpone(record)
        else:
            self._give_up(record, error)

    def _give_up(self, record: Sent, error: ClientError) -> None:
        for each in (record, *record.rest):
            each.error, each.in_doubt = error, record.in_doubt
            each.outcome = Outcome.UNKNOWN if record.in_doubt else Outcome.FAILED
            self._world.client_observed(SendFailed(each))
        if self.config.idempotent:
            self._begin_new_epoch()

    def _begin_new_epoch(self) -> None:
        """A record was given up, so its sequence number may be missing on the broker: KIP-360 starts over
        with a new producer epoch and numbers what is left from 0."""
        self.producer_epoch += 1
        self._next_sequence = {}
        for record in self.undecided:
            record.sequence = self._next_sequence.get(record.tp, 0)
            self._next_sequence[record.tp] = record.sequence + 1

    def disconnected(self, broker: int) -> None:
        """The connection to a broker was reset: whatever was in flight on it is in doubt."""
        for correlation in [c for c, (_, to, _) in self._in_flight.items() if to == broker]:
            self._lost(correlation, ClientFailure.CONNECTION_LOST)
        self._dispatch()

    def wake(self) -> None:
        now = self._world.now
        self._armed = None
        for correlation in [c for c, (_, _, at) in self._in_flight.items() if at <= now]:
            self._lost(correlation, ClientFailure.NO_ANSWER)
        self._dispatch()
        if self._in_flight:
            self._arm(min([timeout_at for _, _, timeout_at in self._in_flight.values()]))

    def _lost(self, correlation: int, error: ClientError) -> None:
        record, _, _ = self._in_flight.pop(correlation)
        if record is None:
            self.metadata.requested = False
        elif record.outcome is None:
            record.in_doubt = True
            self.metadata.leaders.pop(record.tp, None)
            self._refresh()
            self._retry_or_give_up(record, error, retriable=True)
