"""All groups that this broker coordinates: those whose partition of ``__consumer_offsets`` it leads.

The leader of the partition is the coordinator. Leadership is checked at every request, so no change can be
missed. Events of leadership only start loading early, and answer waiting members early.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.led_partition import Deliver, LedPartition
from tidelog.core.events import BecameFollower, BecameLeader, ReplicaDeleted
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.topic_messages import CreateTopicRequest
from tidelog.core.types import BrokerEndpoint, BrokerId, TopicPartition
from tidelog.groups.context import GroupConfig, GroupCounts
from tidelog.groups.coordinator import name_is_illegal
from tidelog.groups.messages import ListedGroup, Request, refusal
from tidelog.groups.records import TOPIC, partition_of
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.settings.broker import Settings

_MINUTE_MS = 60_000
TOPICS_SECONDS = 1.0
PATIENCE_SECONDS = 0.9
POLL_SECONDS = 0.02
CHANGES_OF_LEADERSHIP = (BecameLeader, BecameFollower, ReplicaDeleted)

_partition_of = lru_cache(maxsize=1024)(partition_of)


class Coordinators:
    def __init__(self, node: Node, settings: Settings) -> None:
        self._node = node
        self._config = GroupConfig(
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
            settings.group_initial_rebalance_delay_ms,
            settings.group_max_size,
            settings.offset_metadata_max_bytes,
            settings.offsets_retention_minutes * _MINUTE_MS,
        )
        self.tally = GroupCounts()
        """Counters over all coordinators of this process."""
        self._led: dict[TopicPartition, LedPartition] = {}
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._retention_seconds = settings.offsets_retention_check_interval_ms / 1000
        self._missing: set[str] = set()
        """Topics with committed offsets that did not exist at the last check."""

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    # ------------------------------------------------------------ partition of a group

    def partition(self, group: str) -> TopicPartition | None:
        """The partition that holds a group; None while the topic is not in the metadata."""
        count = len(self._node.core.metadata.topics.get(TOPIC, ()))
        return TopicPartition(TOPIC, _partition_of(group, count)) if count else None

    def whereabouts(self, group: str) -> tuple[BrokerId, BrokerEndpoint] | None:
        """The broker that coordinates a group, or None."""
        metadata, tp = self._node.core.metadata, self.partition(group)
        assignment = None if tp is None else metadata.get(tp)
        if assignment is None:
            return None
        leader = assignment.state.leader
        return (leader, metadata.endpoints[leader]) if leader in metadata.endpoints else None

    # ------------------------------------------------------------ requests

    def ask(self, request: Request, deliver: Deliver) -> None:
        """``deliver`` is called with the answer, now or later."""
        if name_is_illegal(request):
            deliver(refusal(request, ErrorCode.INVALID_GROUP_ID))
        elif self.partition(request.group) is not None:
            self._pass_on(request, deliver)
        else:
            # Another broker may have learnt of a new topic earlier, and sent the client here.
            self.wait_for(
                lambda: self.partition(request.group) is not None, lambda: self._pass_on(request, deliver)
            )

    def _pass_on(self, request: Request, deliver: Deliver) -> None:
        tp = self.partition(request.group)
        led = self._look_up(tp) if tp is not None else None
        if led is None:
            deliver(refusal(request, ErrorCode.NOT_COORDINATOR))
        else:
            led.ask(request, deliver)

    def wait_for(self, known: Callable[[], bool], go_on: Callable[[], None]) -> None:
        """Continue when the metadata has arrived, or after a short time-out."""
        _Wait(self._node, known, go_on)

    def groups(self) -> list[ListedGroup] | None:
        """All groups that this broker coordinates; None while some are being loaded."""
        led = self._all_led()
        if any(partition.coordinator.loading for partition in led):
            return None
        return [group for partition in led for group in partition.coordinator.groups()]

    def states(self) -> Counter[str]:
        """The number of groups in each state, without those that are being loaded."""
        known = (led.coordinator for led in self._led.values() if not led.coordinator.loading)
        return Counter(group.state for coordinator in known for group in coordinator.groups())

    def members_count(self) -> int:
        return sum(led.coordinator.members_count() for led in self._led.values())

    @property
    def loading_count(self) -> int:
        return sum(led.coordinator.loading for led in self._led.values())

    # ------------------------------------------------------------ leadership

    def observe(self, event: Any) -> None:
        if event.tp.topic == TOPIC:
            self.leadership_changed(event.tp)

    def leadership_changed(self, tp: TopicPartition) -> None:
        self._look_up(tp)

    def _look_up(self, tp: TopicPartition) -> LedPartition | None:
        replica = self._node.core.replicas.get(tp)
        role = replica.role if replica is not None else None
        led = self._led.get(tp)
        if led is not None and led.role is not role:
            del self._led[tp]
            led.end()
            led = None
        if led is None and isinstance(role, LeaderRole):
            led = self._led[tp] = LedPartition(self._node, tp, role, self._config, self.tally)
            self._every(self._retention_seconds, self._expire)
            self._every(TOPICS_SECONDS, self._look_for_deleted_topics)
        return led

    # ------------------------------------------------------------ timers

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        """Run periodically while this broker leads any partition."""

        def run() -> None:
            del self._timers[work]
            work()
            if self._led:
                self._every(seconds, work)
            self._node.settle()

        if work not in self._timers:
            self._timers[work] = asyncio.get_running_loop().call_later(seconds, run)

    def _all_led(self) -> list[LedPartition]:
        return [led for tp in list(self._led) if (led := self._look_up(tp)) is not None]

    def _expire(self) -> None:
        for led in self._all_led():
            led.expire()

    def _look_for_deleted_topics(self) -> None:
        """A topic that is missing in two checks counts as deleted: one outdated metadata update must not drop
        offsets."""
        there, led = self._node.core.metadata.topics, self._all_led()
        missing = {topic for each in led for topic in each.coordinator.topics if topic not in there}
        gone = missing & self._missing
        self._missing = missing
        for each in led if gone else ():
            each.topics_deleted(gone)


class _Wait:
    """An object and not a closure that refers to itself: such a cycle would keep the request, perhaps
    megabytes, in memory until the garbage collector runs."""

    __slots__ = ("_deadline", "_go_on", "_known", "_loop", "_node")

    def __init__(self, node: Node, known: Callable[[], bool], go_on: Callable[[], None]) -> None:
        self._node = node
        self._known = known
        self._go_on = go_on
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + PATIENCE_SECONDS
        self._look_later()

    def _look_later(self) -> None:
        self._loop.call_later(POLL_SECONDS, self._look)

    def _look(self) -> None:
        if self._known() or self._loop.time() >= self._deadline:
            self._go_on()
            self._node.settle()
        else:
            self._look_later()


def topic_request(settings: Settings) -> CreateTopicRequest:
    """The request that creates the topic: compacted, so that the last record of every key is kept."""
    config = {"cleanup.policy": "compact", "segment.bytes": str(settings.offsets_topic_segment_bytes)}
    return CreateTopicRequest(
        topic=TOPIC,
        partitions=settings.offsets_topic_num_partitions,
        replication_factor=settings.offsets_topic_replication_factor,
        assignment=None,
        config=config,
    )
