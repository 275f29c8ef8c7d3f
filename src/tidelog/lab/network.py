"""Messages in flight: ordered within a connection, delayed, held, cut or lost.

A *channel* is one direction of one kind of connection between two nodes, written ``fetch 1->0``. Within a
channel order is kept, as TCP keeps it; between channels nothing is promised, as nothing is in reality:
the fetch connection and the control connection between the same two brokers are two connections.

Nodes are broker ids (ints), client names and keeper member names (strings).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.core import messages as m
from tidelog.core.types import Millis

Node = int | str

KEEPER = "keeper"
"""The keeper as an address: whichever member serves."""


class Channel(NamedTuple):
    name: str
    source: Node
    target: Node

    def __str__(self) -> str:
        return f"{self.name} {self.source}->{self.target}"


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
    m.ControlledShutdownRequest: "isr",
    m.AlterIsrResponse: "isr-reply",
    m.ControlledShutdownResponse: "isr-reply",
}
CHANNEL_NAMES = (
    "fetch",
    "fetch-reply",
    "control",
    "control-reply",
    "isr",
    "isr-reply",
    "keeper",
    "keeper-reply",
    "client",
    "client-reply",
)


class InFlight(NamedTuple):
    ready_at: Millis
    sequence: int
    payload: Any


class Network:
    __slots__ = ("_channels", "_held", "_sequence", "active", "blocked", "delays", "hold_all", "latency_ms")

    def __init__(self, latency_ms: Millis) -> None:
        self.latency_ms = latency_ms
        self.active: dict[Channel, deque[InFlight]] = {}
        """Channels with something in flight, in the order in which they became busy."""
        self.blocked: set[tuple[Node, Node]] = set()
        self.delays: dict[tuple[Node, Node], Millis] = {}
        self.hold_all = False
        self._held: set[Channel] = set()
        self._channels: dict[tuple[str, Node, Node], Channel] = {}
        self._sequence = 0

    # ------------------------------------------------------------ sending and taking

    def send(self, name: str, source: Node, target: Node, payload: Any, now: Millis) -> None:
        """Put a message on its way, or lose it if the link is cut."""
        if self.blocked and (source, target) in self.blocked:
            return
        key = (name, source, target)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel(name, source, target)
        delay = self.delays.get((source, target), 0) if self.delays else 0
        self._sequence += 1
        message = InFlight(now + self.latency_ms + delay, self._sequence, payload)
        queue = self.active.get(channel)
        if queue is None:
            self.active[channel] = deque((message,))
        else:
            queue.append(message)

    def take(self, channel: Channel) -> InFlight:
        queue = self.active[channel]
        message = queue.popleft()
        if not queue:
            del self.active[channel]
        return message

    def head(self, channel: Channel) -> InFlight:
        return self.active[channel][0]

    # ------------------------------------------------------------ holding

    def hold(self, channel: Channel) -> None:
        self._held.add(channel)

    def release(self, channel: Channel) -> None:
        self._held.discard(channel)

    def release_everything(self) -> None:
        self.hold_all = False
        self._held.clear()

    def is_held(self, channel: Channel) -> bool:
        return self.hold_all or channel in self._held

    def earliest(self, paused: Iterable[Node]) -> Channel | None:
        """The channel whose head is due first, ignoring what is held or addressed to a paused process."""
        best: Channel | None = None
        best_due = (0, 0)
        if self.hold_all:
            return None
        for channel, queue in self.active.items():
            if (self._held and channel in self._held) or (paused and channel.target in paused):
                continue
            head = queue[0]
            due = (head.ready_at, head.sequence)
            if best is None or due < best_due:
                best, best_due = channel, due
        return best

    # ------------------------------------------------------------ losing

    def lose_between(self, source: Node, target: Node) -> None:
        """Whatever is on its way from ``source`` to ``target`` never arrives."""
        for channel in [c for c in self.active if c.source == source and c.target == target]:
            del self.active[channel]

    def lose_to(self, target: Node) -> None:
        for channel in [c for c in self.active if c.target == target]:
            del self.active[channel]

    def lose_from(self, source: Node) -> None:
        for channel in [c for c in self.active if c.source == source]:
            del self.active[channel]

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
