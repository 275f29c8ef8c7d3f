"""Throttles of replication (KIP-73): a partition that moves does not take the bandwidth of those in use.

A topic names the replicas that are throttled, by partition and broker. Each broker has two rates for all its
throttled partitions together: of what it sends as a leader, and of what it fetches as a follower.

Rules of the file, as in Kafka:

* A replica that is in sync never waits. A leader goes by its ISR; a follower does not know that, and goes by
  the leader's high watermark. What replicas in sync fetch of throttled partitions is counted.
* A leader answers the others without records while its rate is above the quota; a follower does not ask.
* While no topic is throttled, ``topics`` is empty, and a fetch costs a look at that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final

from tidelog.broker.replication_quota import Quota
from tidelog.core.messages import NO_ERROR, FetchRequest, FetchResponse
from tidelog.core.types import BrokerId, Millis, Offset, TopicPartition
from tidelog.settings.dynamic import DynamicSettings
from tidelog.settings.kinds import EVERY_REPLICA
from tidelog.settings.topic import LogConfig
from tidelog.wire.batch import size_of

Clock = Callable[[], Millis]

EVERY_PARTITION: Final = range(1 << 31)
_PAUSE_MS_MIN: Final[Millis] = 10


class Throttle:
    """One side: what this broker sends as a leader, or fetches as a follower."""

    __slots__ = ("_broker", "_clock", "quota", "topics")

    def __init__(self, broker: BrokerId, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self.quota = Quota()
        self.topics: dict[str, Container[int]] = {}
        """The throttled partitions of each topic that has some."""

    def configure(self, topic: str, replicas: tuple[tuple[int, int], ...]) -> None:
        mine = frozenset(partition for partition, broker in replicas if broker == self._broker)
        if replicas == EVERY_REPLICA:
            self.topics[topic] = EVERY_PARTITION
        elif mine:
            self.topics[topic] = mine
        else:
            self.topics.pop(topic, None)

    def covers(self, tp: TopicPartition) -> bool:
        return tp.partition in self.topics.get(tp.topic, ())

    def is_exceeded(self) -> bool:
        return self.quota.is_exceeded(self._clock())

    def _count(self, response: FetchResponse) -> None:
        size = size_of(response.batches)  # type: ignore[arg-type]  # a broker's logs have these batches
        self.quota.add(size, self._clock())


class LeaderThrottle(Throttle):
    __slots__ = ("_in_sync",)

    def __init__(
        self, broker: BrokerId, clock: Clock, in_sync: Callable[[TopicPartition, BrokerId], bool]
    ) -> None:
        super().__init__(broker, clock)
        self._in_sync = in_sync

    def holds_back(self, tp: TopicPartition, follower: BrokerId) -> bool:
        """Whether records for this follower must wait."""
        return self.covers(tp) and self.is_exceeded() and not self._in_sync(tp, follower)

    def passes(self, response: FetchResponse, follower: BrokerId) -> bool:
        """Whether these records may be sent now. They count if so."""
        if self.holds_back(response.tp, follower):
            return False
        if self.covers(response.tp):
            self._count(response)
        return True


class FollowerThrottle(Throttle):
    __slots__ = ("_committed", "_timer", "go_on")

    def __init__(self, broker: BrokerId, clock: Clock) -> None:
        super().__init__(broker, clock)
        self._committed: dict[TopicPartition, Offset] = {}
        """The leader's high watermark in its last answer, of throttled partitions."""
        self._timer: asyncio.Handle | None = None
        self.go_on: Callable[[], None] = _nothing
        """Fetches what was held back, as far as the quota allows."""

    def configure(self, topic: str, replicas: tuple[tuple[int, int], ...]) -> None:
        super().configure(topic, replicas)
        for tp in [tp for tp in self._committed if not self.covers(tp)]:
            del self._committed[tp]

    def delays(self, request: FetchRequest) -> bool:
        """Whether a fetch must wait. Then ``go_on`` is called when to try again."""
        tp = request.tp
        if not self.covers(tp) or request.offset >= self._committed.get(tp, request.offset + 1):
            return False
        if not self.is_exceeded():
            return False
        self._set_timer()
        return True

    def fetched(self, response: FetchResponse) -> None:
        """Note an answer before the core acts on it."""
        if response.error is NO_ERROR and self.covers(response.tp):
            self._committed[response.tp] = response.high_watermark
            self._count(response)

    def changed(self) -> None:
        """The quota or the throttled partitions are others now: what waits may not have to."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._wake)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is None:
            wait_ms = max(self.quota.wait_ms(self._clock()), _PAUSE_MS_MIN)
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.go_on()


class Throttles:
    def __init__(
        self, broker: BrokerId, clock: Clock, in_sync: Callable[[TopicPartition, BrokerId], bool]
    ) -> None:
        """``in_sync``: whether this broker leads a partition, with that follower in the ISR."""
        self.leader = LeaderThrottle(broker, clock, in_sync)
        self.follower = FollowerThrottle(broker, clock)

    def configure_topic(self, topic: str, config: LogConfig) -> None:
        self.leader.configure(topic, config.leader_replication_throttled_replicas)
        self.follower.configure(topic, config.follower_replication_throttled_replicas)
        self.follower.changed()

    def set_rates(self, settings: DynamicSettings) -> None:
        self.leader.quota.rate = settings.leader_replication_throttled_rate
        self.follower.quota.rate = settings.follower_replication_throttled_rate
        self.follower.changed()


def _nothing() -> None:
    pass
