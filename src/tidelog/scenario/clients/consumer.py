"""Kafka's consumer: one poll at a time, from the leader it believes in."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.core.messages import (
    CONSUMER,
    FetchRequest,
    FetchResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
)
from tidelog.core.types import NO_EPOCH, NO_LEADER, Millis, Offset, TopicPartition
from tidelog.scenario.clients.events import ClientError, ClientFailure, RecordRead
from tidelog.scenario.clients.metadata import NO_ONE, ClientHost, ClientMetadata
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True)
class _Poll:
    tp: TopicPartition
    correlation: int
    broker: int
    timeout_at: Millis


@dataclass(slots=True)
class Consumer:
    """Reads a partition from the beginning, below the high watermark, from the leader it believes in."""

    name: str
    world: ClientHost
    uses_epochs: bool
    positions: dict[TopicPartition, Offset] = field(default_factory=dict)
    reads: list[RecordRead] = field(default_factory=list)
    last_error: ClientError | None = None
    metadata: ClientMetadata = field(default_factory=ClientMetadata)
    _poll: _Poll | None = None
    _wanted: TopicPartition | None = None
    _correlation: int = 0
    request_timeout_ms: Millis = 5_000

    @property
    def busy(self) -> bool:
        return self._wanted is not None

    def poll(self, tp: TopicPartition) -> None:
        """Start one poll; it ends when a fetch was answered, or with an error in ``last_error``."""
        if self._wanted is None:
            self._wanted = tp
            self.last_error = None
            self._go(refreshed=False)

    def topic_deleted(self, topic: str) -> None:
        """It reads the next topic of this name from the beginning."""
        self.reads = [read for read in self.reads if read.tp.topic != topic]
        self.positions = {tp: offset for tp, offset in self.positions.items() if tp.topic != topic}
        self.metadata.forget(topic)

    def _go(self, *, refreshed: bool) -> None:
        tp = self._wanted
        assert tp is not None
        leader, epoch = self.metadata.leaders.get(tp, NO_ONE)
        if leader == NO_LEADER or not self.world.can_connect(self.name, leader):
            broker = self.metadata.choose(self.name, self.world)
            if broker is None or refreshed:
                self._finish(ClientFailure.NO_LEADER)
                return
            self._send(broker, MetadataRequest(), tp)
            return
        known_epoch = epoch if self.uses_epochs else NO_EPOCH
        self._send(leader, FetchRequest(tp, CONSUMER, self.positions.get(tp, 0), known_epoch, 0), tp)

    def _send(self, broker: int, message: Message, tp: TopicPartition) -> None:
        self._correlation += 1
        timeout_at = self.world.now + self.request_timeout_ms
        self._poll = _Poll(tp, self._correlation, broker, timeout_at)
        self.world.wake_client(self.name, timeout_at)
        self.world.client_sends(self.name, broker, self._correlation, message)

    def _finish(self, error: ClientError | None) -> None:
        self.last_error = error
        self._wanted = None
        self._poll = None

    def replied(self, correlation: int, message: Message) -> None:
        if self._poll is None or self._poll.correlation != correlation:
            return
        if isinstance(message, MetadataResponse):
            self.metadata.learn(message)
            self._go(refreshed=True)
        elif isinstance(message, FetchResponse):
            self._fetched(message)

    def _fetched(self, response: FetchResponse) -> None:
        if response.error is not ErrorCode.NONE:
            self.metadata.leaders.pop(response.tp, None)
            if response.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.positions[response.tp] = 0  # auto.offset.reset=earliest
            self._finish(response.error)
            return
        for batch in response.batches:
            assert isinstance(batch, MemoryBatch)
            position = self.positions.get(response.tp, 0)
            self.positions[response.tp] = batch.next_offset
            for record in batch.records():
                # The first batch may begin below the position.
                if record.value is not None and record.base_offset >= position:
                    at, epoch = record.base_offset, record.leader_epoch
                    read = RecordRead(self.name, response.tp, at, record.value, epoch)
                    self.reads.append(read)
                    self.world.client_observed(read)
        self._finish(None)

    def disconnected(self, broker: int) -> None:
        if self._poll is not None and self._poll.broker == broker:
            self.metadata.leaders.clear()
            self._finish(ClientFailure.CONNECTION_LOST)

    def wake(self) -> None:
        if self._poll is not None and self._poll.timeout_at <= self.world.now:
            self.metadata.leaders.clear()
            self._finish(ClientFailure.NO_ANSWER)
