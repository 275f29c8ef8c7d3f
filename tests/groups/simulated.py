"""Coordinators in the lab: the shipping ones, on the simulated cluster's replicated log.

Each broker has a seat. Whenever its core leads the partition of ``__consumer_offsets``, a coordinator sits
there: it has read the log as a consumer would, writes through the core's produce with acks=all, and vanishes
with its process or its leadership. In the broker the same is done by ``broker/coordinators``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tidelog.core.config import BrokerConfig
from tidelog.core.effects import WakeAt
from tidelog.core.messages import ACKS_ALL, ProduceRequest, ProduceResponse
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import TopicPartition
from tidelog.groups.context import Answer, GroupConfig, Write
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.messages import Request
from tidelog.groups.records import TOPIC, read_entry
from tidelog.lab.world.boot import booted
from tidelog.lab.world.world import World
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.storage.memory import MemoryBatch

TP = TopicPartition(TOPIC, 0)
SETUP = Setup(
    topics=(TopicSetup(TOPIC, (0, 1, 2)),),
    config=BrokerConfig(replica_lag_time_max_ms=4_000),
    session_timeout_ms=2_000,
)
CONFIG = GroupConfig(initial_rebalance_delay_ms=0)
WRITE_MS = 5_000


class Seat:
    """A client of the world, so that it is given the answers of its own broker and can be woken."""

    def __init__(self, cluster: SimulatedGroups, broker: int) -> None:
        self.name = f"seat-{broker}"
        self.broker = broker
        self.coordinator: Coordinator | None = None
        self._cluster = cluster
        self._world = cluster.world
        self._role: LeaderRole | None = None
        self._next = 0
        self._end = 0
        self._writes: dict[int, tuple[Coordinator, int]] = {}
        self._put_off: list[tuple[int, Any]] = []

    # ------------------------------------------------------------ what the world says

    def replied(self, correlation: int, reply: ProduceResponse) -> None:
        if self.broker in self._world.paused:
            self._put_off.append((correlation, reply))
            return
        self.refresh()
        coordinator, number = self._writes.pop(correlation, (None, 0))
        if coordinator is not None and self._world.processes[self.broker].core is not None:
            coordinator.written(number, reply.error, self._world.now)
            self._carry_out(coordinator)

    def wake(self) -> None:
        if self.broker not in self._world.paused:
            self.refresh()
            if self.coordinator is not None:
                self.coordinator.wake(self._world.now)
                self._carry_out(self.coordinator)

    def disconnected(self, broker: int) -> None:
        if broker == self.broker:  # our own process died, and we with it
            self._writes.clear()
            self._put_off.clear()
            self._role = self.coordinator = None

    # ------------------------------------------------------------ leadership

    def refresh(self) -> None:
        if self.broker in self._world.paused:
            return
        core = self._world.processes[self.broker].core
        replica = None if core is None else core.replicas.get(TP)
        role = replica.role if replica is not None and isinstance(replica.role, LeaderRole) else None
        if role is not self._role:
            self._role = role
            before, self.coordinator = self.coordinator, None
            if before is not None:
                before.hand_over()
                self._carry_out(before)
            if role is not None:
                self.coordinator = Coordinator(CONFIG, lambda: self._world.now, self._cluster.draw_id)
                self._next, self._end = role.log.start_offset, role.log.end_offset
        if self.coordinator is not None and self.coordinator.loading and replica is not None:
            for batch in replica.log.read(self._next, min(replica.high_watermark, self._end)):
                assert isinstance(batch, MemoryBatch)
                self._next = batch.next_offset
                for key, value in ast.literal_eval(batch.value or "()"):
                    record = read_entry(key, value)
                    assert record is not None
                    self.coordinator.load(record)
            if self._next >= self._end:
                self.coordinator.loaded(self._world.now)
                self._carry_out(self.coordinator)
        put_off, self._put_off = self._put_off, []
        for correlation, reply in put_off:
            self.replied(correlation, reply)

    # ------------------------------------------------------------ requests and effects

    def ask(self, request: Request, number: int) -> None:
        if self.coordinator is not None:
            self.coordinator.receive(request, number, self._world.now)
            self._carry_out(self.coordinator)

    def _carry_out(self, coordinator: Coordinator) -> None:
        while coordinator.effects:
            effect = coordinator.effects.pop(0)
            if isinstance(effect, Answer):
                self._cluster.answered(self, effect)
            elif isinstance(effect, WakeAt):
                self._world.wake_client(self.name, effect.at)
            else:
                self._write(coordinator, effect)

    def _write(self, coordinator: Coordinator, write: Write) -> None:
        process = self._world.processes[self.broker]
        assert process.core is not None
        correlation = self._cluster.next_number()
        self._writes[correlation] = (coordinator, write.number)
        batch = MemoryBatch(repr(write.entries))
        process.core.receive(
            (self.name, correlation), ProduceRequest(TP, self._cluster.acks, batch, WRITE_MS), self._world.now
        )
        self._world._carry_out(process)


class SimulatedGroups:
    def __init__(self, acks: int = ACKS_ALL) -> None:
        self.acks = acks
        self.world: World = booted(SETUP, lambda _event: None)
        self.answers: dict[int, Any] = {}
        self._numbers = 0
        self.seats = [Seat(self, broker) for broker in self.world.broker_ids()]
        for seat in self.seats:
            self.world.clients[seat.name] = seat  # type: ignore[assignment]  # it has the same interface

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def draw_id(self) -> str:
        return f"id-{self.next_number()}"

    def answered(self, _seat: Seat, answer: Answer) -> None:
        assert answer.to not in self.answers, "answered twice"
        self.answers[answer.to] = answer.response  # type: ignore[index]

    def advance(self, ms: int) -> None:
        for _ in range(max(ms // 100, 1)):
            self.world.advance(min(ms, 100))
            for seat in self.seats:
                seat.refresh()

    def coordinating(self) -> Iterator[Seat]:
        """The brokers that consider themselves coordinator: perhaps two, or none."""
        for seat in self.seats:
            seat.refresh()
            if seat.coordinator is not None and seat.broker not in self.world.paused:
                yield seat

    def ask(self, seat: Seat, request: Request) -> int:
        number = self.next_number()
        seat.ask(request, number)
        return number
