"""One partition of ``__consumer_offsets`` that this broker leads: a coordinator, its log and its clock.

It belongs to one leadership. Its writes go through the core's produce with acks=all, and are answered when
they are committed. It writes nothing after that leadership has ended, even if this broker leads again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.appending import Appending
from tidelog.broker.coordinators.loading import Loading
from tidelog.core.effects import WakeAt
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import TopicPartition
from tidelog.groups.context import Answer, GroupConfig, GroupCounts, Write
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.messages import Request
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node

Deliver = Callable[[Any], None]
"""Takes the response to the request."""


class LedPartition:
    def __init__(
        self, node: Node, tp: TopicPartition, role: LeaderRole, config: GroupConfig, tally: GroupCounts
    ) -> None:
        self.tp = tp
        self.role = role
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._wake_at: asyncio.TimerHandle | None = None
        self.coordinator = Coordinator(config, node.time_ms, _draw_id, tally)
        self._began = node.now()
        self._ended = False
        self._appending = Appending(node, tp, lambda: self._leads, self.written)
        self._loading = Loading(node, tp, self.coordinator.load, self._loaded)
        self._loading.go_on()

    def _loaded(self) -> None:
        node = self._node
        self.coordinator.loaded(node.now())
        self._carry_out()
        if self._loading.found_any:
            count = sum(1 for _ in self.coordinator.groups())
            took = node.now() - self._began
            node.log.info("loaded %s groups of %s in %s ms", count, self.tp, took)

    def end(self) -> None:
        """Another broker leads: answer waiting members with NOT_COORDINATOR."""
        self._ended = True
        self._loading.give_up()
        if self._wake_at is not None:
            self._wake_at.cancel()
        self.coordinator.hand_over()
        self._carry_out()

    # ------------------------------------------------------------ inputs

    def ask(self, request: Request, deliver: Deliver) -> None:
        self.coordinator.receive(request, deliver, self._node.now())
        self._carry_out()

    def expire(self) -> None:
        self.coordinator.expire(self._node.now())
        self._carry_out()

    def topics_deleted(self, topics: Collection[str]) -> None:
        self.coordinator.topics_deleted(topics, self._node.now())
        self._carry_out()

    def _wake(self) -> None:
        self._wake_at = None
        if self._leads:
            self.coordinator.wake(self._node.now())
            self._carry_out()
        else:
            self._node.groups.leadership_changed(self.tp)
        self._node.settle()

    def written(self, number: int, error: ErrorCode) -> None:
        self.coordinator.written(number, error, self._node.now())
        self._carry_out()

    # ------------------------------------------------------------ effects

    @property
    def _leads(self) -> bool:
        replica = self._node.core.replicas.get(self.tp)
        return replica is not None and replica.role is self.role

    def _carry_out(self) -> None:
        effects = self.coordinator.effects
        while effects:
            batch = effects[:]
            effects.clear()
            for effect in batch:
                if isinstance(effect, Answer):
                    self._answer(effect)
                elif isinstance(effect, Write):
                    self._appending.add(effect)
                else:
                    self._schedule(effect)

    def _answer(self, answer: Answer) -> None:
        try:
            answer.to(answer.response)  # type: ignore[operator]  # the token that ``ask`` got
        except Exception:
            # A bug in one answer must not drop the effects behind it, which belong to other clients.
            self._node.log.exception("failed to answer %s", type(answer.response).__name__)

    def _schedule(self, wake: WakeAt) -> None:
        if self._ended:
            return
        at = wake.at / 1000
        if self._wake_at is not None:
            if self._wake_at.when() <= at:
                return
            self._wake_at.cancel()
        self._wake_at = self._loop.call_at(at, self._wake)


def _draw_id() -> str:
    return str(uuid.uuid4())
