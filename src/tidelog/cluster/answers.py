"""Questions to all brokers of a cluster that can be asked now: who leads, who is in sync."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.cluster.observe import (
    ANSWER_SECONDS,
    InSync,
    Reachable,
    agreed_controller,
    agreed_leader,
    isr,
    wait_in_sync,
    wait_isr,
)


class Answers:
    def __init__(self, reachable: Reachable, brokers: Collection[int]) -> None:
        """`brokers`: all that there should be."""
        self._asked = reachable
        self._all = brokers

    async def controller(self, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the controller."""
        return await agreed_controller(self._asked, timeout_s)

    async def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the leader of a partition."""
        return await agreed_leader(self._asked, topic, partition, timeout_s)

    async def isr(
        self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS
    ) -> frozenset[int]:
        """The brokers that the leader of a partition holds to be in sync."""
        return await isr(self._asked, topic, partition, timeout_s)

    async def wait_isr(self, topic: str, wanted: InSync, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until all brokers that answer know this many replicas, or these brokers, to be in sync for each
        partition of a topic."""
        await wait_isr(self._asked, topic, wanted, timeout_s)

    async def wait_in_sync(self, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until every broker runs and knows all replicas of all topics to be in sync."""
        await wait_in_sync(self._asked, self._all, timeout_s)
