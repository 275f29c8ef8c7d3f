"""Messages in flight: ordered within a connection, delayed, held, cut or lost.

A *channel* is one direction of one kind of connection between two nodes, written ``fetch 1->0``. Within a
channel order is kept, as TCP keeps it; between channels nothing is promised, as nothing is in reality:
the fetch connection and the control connection between the same two brokers are two connections.

Nodes and channels are named in ``faults.places``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from tidelog.core import messages as m
from tidelog.core.types import Millis
from tidelog.faults.places import Channel, Node

CONNECTION_OF: dict[type, str] = {
    m.FetchRequest: "fetch",
    m.EpochEndRequest: "fetch",
    m.ListOffsetsRequest: "fetch",
    m.FetchResponse: "fetch-reply",
    m.EpochEndResponse: "fetch-reply",
    m.ListOffsetsResponse: "fetch-reply",
    m.LeaderAndIsrRequest: "control",
    m.UpdateMetadataRequest: "control",
    m.StopReplicaRequest: "control",
    m.VoteRequest: "control",
    m.ControlResponse: "control-reply",
    m.VoteResponse: "control-reply",
    m.AlterIsrRequest: "isr",
    m.RelieveReplicaRequest: "isr",
    m.ControlledShutdownRequest: "isr",
    m.AlterIsrResponse: "isr-reply",
    m.RelieveReplicaResponse: "isr-reply",
    m.ControlledShutdownResponse: "isr-reply",
}
_channel = lru_cache(maxsize=10_000)(Channel)
"""Channels have the same names in every world."""

InFlight = tuple[Millis, int, Any]
"""(due, sequence number, payload): plain, because the simulator makes millions of them."""
_Line = tuple[Channel, list[InFlight]]
"""A channel and what is in flight on it: a list, because it is short, and smaller than a deque."""


class Network:
    __slots__ = (
        "_held",
        "_hold_all",
        "_lines",
        "_order",
        "_sequence",
        "active",
        "blocked",
        "delays",
        "latency_ms",
    )

    def __init__(self, latency_ms: Millis) -> None:
        self.latency_ms = latency_ms
        self.active: dict[Channel, list[InFlight]] = {}
        """Channels with something in flight, in the order in which they became busy."""
        self.blocked: set[tuple[Node, Node]] = set()
        self.delays: dict[tuple[Node, Node], Millis] = {}
        self._hold_all = False
        self._held: set[Channel] = set()
        self._lines: dict[tuple[str, Node, Node], _Line] = {}
        """Every channel that was ever used: most are used again, so their queues stay."""
        self._sequence = 0
        self._order: deque[tuple[InFlight, Channel, list[InFlight]]] = deque()
        """Every message sent and its line, oldest first; entries of messages that were taken are stale.
        It is not kept while everything is held, since the oldest message is not asked for then."""

    # ------------------------------------------------------------ sending and taking

    def send(self, name: str, source: Node, target: Node, payload: Any, now: Millis) -> None:
        """Put a message on its way, or lose it if the link is cut."""
        if self.blocked and (source, target) in self.blocked:
            return
        key = (name, source, target)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = (_channel(name, source, target), [])
        self._sequence = sequence = self._sequence + 1
        due = now + self.latency_ms
        if self.delays:
            due += self.delays.get((source, target), 0)
        message = (due, sequence, payload)
        channel, queue = line
        if not queue:
            self.active[channel] = queue
        queue.append(message)
        if not self._hold_all:
            self._order.append((message, channel, queue))

    def take(self, channel: Channel) -> Any:
        """The payload of the message at the head."""
        queue = self.active[channel]
        payload = queue.pop(0)[2]
        if not queue:
            del self.active[channel]
        return payload

    @property
    def messages_sent(self) -> int:
        return self._sequence

    def in_flight(self, channel: Channel) -> list[Any]:
        return [payload for _, _, payload in self.active.get(channel, ())]

    # ------------------------------------------------------------ holding

    @property
    def hold_all(self) -> bool:
        """Nothing arrives unless it is taken by name."""
        return self._hold_all

    @hold_all.setter
    def hold_all(self, held: bool) -> None:
        if self._hold_all and not held:
            order = ((m, channel, queue) for channel, queue in self.active.items() for m in queue)
            self._order = deque(sorted(order, key=_age))
        self._hold_all = held

    def hold(self, channel: Channel) -> None:
        self._held.add(channel)

    def release(self, channel: Channel) -> None:
        self._held.discard(channel)

    def is_held(self, channel: Channel) -> bool:
        return channel in self._held

    def held(self) -> list[Channel]:
        """Channels that are held one by one."""
        return sorted(self._held, key=str)

    def release_everything(self) -> None:
        self.hold_all = False
        self._held.clear()

    def earliest(self, paused: Collection[Node]) -> tuple[Millis, Channel] | None:
        """The channel whose head is due first and when, ignoring what is held or addressed to the paused."""
        if self._hold_all or not self.active:
            return None
        if self._held or paused or self.delays:
            return self._earliest_by_search(paused)
        # Every message takes the same time, so the oldest one that is still in flight is due first.
        order = self._order
        while order:
            message, channel, queue = order[0]
            if queue and queue[0] is message:
                return message[0], channel
            order.popleft()
        return None

    def _earliest_by_search(self, paused: Collection[Node]) -> tuple[Millis, Channel] | None:
        best: Channel | None = None
        best_due = (0, 0)
        for channel, queue in self.active.items():
            if channel in self._held or channel[2] in paused:
                continue
            due = queue[0][:2]
            if best is None or due < best_due:
                best, best_due = channel, due
        return None if best is None else (best_due[0], best)

    # ------------------------------------------------------------ losing

    def lose_between(self, source: Node, target: Node) -> None:
        """Whatever is on its way from ``source`` to ``target`` never arrives."""
        self._lose([c for c in self.active if c[1] == source and c[2] == target])

    def lose_to(self, target: Node) -> None:
        self._lose([c for c in self.active if c[2] == target])

    def lose_from(self, source: Node) -> None:
        self._lose([c for c in self.active if c[1] == source])

    def _lose(self, channels: list[Channel]) -> None:
        for channel in channels:
            self.active.pop(channel).clear()

    def forget_idle(self) -> None:
        """Nothing is in flight any more."""
        if not self.active:
            self._lines.clear()
            self._order.clear()

    def block(self, source: Node, target: Node) -> bool:
        """Cut one direction. False if it was cut already."""
        if (source, target) in self.blocked:
            return False
        self.blocked.add((source, target))
        self.lose_between(source, target)
        return True

    def unblock(self, source: Node, target: Node) -> bool:
        if (source, target) not in self.blocked:
            return False
        self.blocked.discard((source, target))
        return True

    def linked(self, a: Node, b: Node) -> bool:
        """Both directions work: a connection can be made."""
        blocked = self.blocked
        return not blocked or ((a, b) not in blocked and (b, a) not in blocked)


def _age(entry: tuple[InFlight, Channel, list[InFlight]]) -> int:
    return entry[0][1]
