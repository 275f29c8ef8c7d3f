"""One direction of one relayed connection: bytes in, messages out, as the links allow.

Rules of this file:

* While no rule looks at single messages, bytes stream through: only the first bytes of each frame are read,
  to know what it is and where the next one begins. A frame is collected whole only if it must wait (held,
  delayed, behind one that waits) or be rewritten. A message that is partly through when a rule begins goes
  through.
* The order within a connection is kept, whatever the channels: answers must come in the order of requests.
  So a held message holds up what follows it on its connection. Heartbeats alone overtake (``labels``).
* Bytes that arrive while the direction is cut are gone, and so is everything after them: a stream with a hole
  cannot be parsed. The connection notices (``lost``) and is reset when the link heals.
* What waits is bounded: beyond ``WAITING_BYTES_MAX`` the source is not read from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog.cluster.network.relays.labels import SIZE, Label, is_heartbeat
from tidelog.cluster.network.relays.rules import Flow, Links, Pair
from tidelog.faults.places import Channel
from tidelog.wire.errors import ProtocolError

FRAME_BYTES_MAX = 256 * 1024 * 1024
WAITING_BYTES_MAX = 16 * 1024 * 1024
TICK_SECONDS = 0.001
"""The loop's clock counts in these: what is due within half of one is due."""

Sort = Callable[[memoryview, int], Label]
"""Reads the header of a frame at a position."""
Tap = Callable[[Label, int], None]
"""Is shown every message that passes, with its size."""


class Waiting(NamedTuple):
    """A message in flight."""

    sequence: int
    due: float
    label: Label
    frame: bytes | bytearray
    heartbeat: bool


class Lane:
    __slots__ = (
        "_collected",
        "_end",
        "_flow",
        "_head",
        "_header_bytes",
        "_label",
        "_left",
        "_links",
        "_loop",
        "_next_sequence",
        "_on_room",
        "_pair",
        "_plain",
        "_scratch",
        "_send",
        "_sort",
        "_tap",
        "_timer",
        "_waiting",
        "_waiting_bytes",
        "_whole",
        "lost",
    )

    def __init__(
        self,
        pair: Pair,
        *,
        links: Links,
        scratch: memoryview,
        next_sequence: Callable[[], int],
        sort: Sort,
        header_bytes: int,
        whole: bool,
    ) -> None:
        """``scratch`` is where the loop puts what it reads, shared by all lanes: nothing stays in it between
        two calls. ``whole``: every frame is collected, for what it is shows only in its body."""
        self._loop = asyncio.get_running_loop()
        self._pair = pair
        self._links = links
        self._flow: Flow = links.flow(*pair)
        self._scratch = scratch
        self._next_sequence = next_sequence
        self._sort = sort
        self._header_bytes = header_bytes
        self._whole = whole
        self._tap: Tap | None = None
        self._send: Callable[[bytes | bytearray], None] = lambda data: None
        self._on_room: Callable[[], None] = lambda: None
        self._plain = True
        self._head = b""
        """The beginning of a header whose rest has not come yet."""
        self._left = 0
        """How much of the frame that has begun is still to come."""
        self._collected: bytearray | None = None
        """That frame, if it is collected and does not stream, and what it is."""
        self._label: Label | None = None
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._end: tuple[float, Callable[[], None]] | None = None
        """When the end of the stream is due, and what to call then."""
        self._timer: asyncio.TimerHandle | None = None
        self.lost = False
        """Something of this direction is gone: nothing that follows can be of use."""

    def attach(self, send: Callable[[bytes | bytearray], None], on_room: Callable[[], None]) -> None:
        """``send`` is the way to the target. ``on_room`` is called when a full lane has room again."""
        self._send = send
        self._on_room = on_room

    # ------------------------------------------------------------ bytes in

    def buffer(self) -> memoryview:
        """Where the next bytes belong."""
        head = self._head
        if not head:
            return self._scratch
        self._scratch[: len(head)] = head
        return self._scratch[len(head) :]

    def received(self, count: int) -> None:
        """``count`` bytes were put into ``buffer()``. Raises `ProtocolError` if they are no frames."""
        flow = self._flow
        flow.bytes += count
        if not self._whole:
            flow.moved_at = self._loop.time()
        if self.lost or self._links.is_cut(self._pair):
            flow.lost_bytes += count
            self.lose()
            return
        scratch = self._scratch
        end = len(self._head) + count
        position = streamed = 0
        while position < end:
            if not self._left:
                if not self._begins(position, end):
                    break
                if self._collected is not None and position > streamed:
                    self._send(bytes(scratch[streamed:position]))
            taken = min(self._left, end - position)
            self._left -= taken
            if self._collected is not None:
                self._collected += scratch[position : position + taken]
                streamed = position + taken
                if not self._left:
                    self._complete()
            position += taken
        if position > streamed:
            self._send(bytes(scratch[streamed:position]))
        self._head = bytes(scratch[position:end])

    def _begins(self, position: int, end: int) -> bool:
        """A frame begins here: what is it, and may it stream? False if its header is not complete."""
        there = end - position
        if there < SIZE.size:
            return False
        (size,) = SIZE.unpack_from(self._scratch, position)
        if not self._header_bytes - SIZE.size <= size <= FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame of {size} bytes")
        if there < self._header_bytes:
            return False
        label = self._sort(self._scratch, position)
        self._left = SIZE.size + size
        if self._plain and label.rewrite is None and not self._waiting:
            self._passed(label, self._left)
        else:
            self._label, self._collected = label, bytearray()
        return True

    def _complete(self) -> None:
        label, frame = self._label, self._collected
        assert label is not None
        assert frame is not None
        self._label = self._collected = None
        heartbeat = self._whole and is_heartbeat(label, frame)
        if not heartbeat:
            self._flow.moved_at = self._loop.time()
        passed_on = label.rewrite(frame) if label.rewrite is not None else frame
        due = self._loop.time() + self._links.delay_s(self._pair)
        if self._waiting:
            due = max(due, self._waiting[-1].due)
        self._waiting.append(Waiting(self._next_sequence(), due, label, passed_on, heartbeat))
        self._waiting_bytes += len(passed_on)
        if heartbeat or len(self._waiting) == 1:
            self._pump()

    # ------------------------------------------------------------ messages out

    def hears_nothing(self) -> bool:
        """Whatever is sent this way now is lost."""
        return self.lost or self._links.is_cut(self._pair)

    @property
    def is_full(self) -> bool:
        return self._waiting_bytes > WAITING_BYTES_MAX

    def rules_changed(self, tap: Tap | None) -> None:
        self._tap = tap
        self._plain = not self._whole and self._links.is_plain(self._pair)
        in_flight = self._waiting or self._collected is not None or self._end is not None
        if in_flight and self._links.is_cut(self._pair):
            self.lose()
        self._pump()

    def _pump(self) -> None:
        """Let go of everything that is due and not held."""
        now = self._loop.time()
        stay: deque[Waiting] = deque()
        blocked = False
        for message in self._waiting:
            due = message.due <= now + TICK_SECONDS / 2
            if due and (message.heartbeat or not (blocked or self._links.holds(message.label.channel))):
                self._let_go(message)
            else:
                blocked = True
                stay.append(message)
        self._waiting = stay
        if self._end is not None and self._end[0] <= now + TICK_SECONDS / 2:
            _, then = self._end
            self.clear()
            then()
        else:
            self._wake_when_due(now)

    def _wake_when_due(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dues = [message.due for message in self._waiting if message.due > now]
        if self._end is not None:
            dues.append(self._end[0])
        if dues:
            self._timer = self._loop.call_at(min(dues), self._pump)

    def end(self, then: Callable[[], None]) -> None:
        """The source has ended. ``then`` is called when the target may know: behind everything that was sent
        before, but what is held by then is not waited for, it is gone."""
        due = self._loop.time() + self._links.delay_s(self._pair)
        if self._waiting:
            due = max(due, self._waiting[-1].due)
        self._end = due, then
        self._pump()

    def _let_go(self, message: Waiting) -> None:
        was_full = self.is_full
        self._waiting_bytes -= len(message.frame)
        if was_full and not self.is_full:
            self._on_room()
        self._send(message.frame)
        if not message.heartbeat:
            self._flow.moved_at = self._loop.time()
            self._passed(message.label, len(message.frame))

    def _passed(self, label: Label, size: int) -> None:
        self._flow.messages += 1
        if self._tap is not None:
            self._tap(label, size)

    # ------------------------------------------------------------ single messages

    def in_flight(self, channel: Channel) -> int:
        return sum(not message.heartbeat and message.label.channel == channel for message in self._waiting)

    def head(self, channel: Channel) -> Waiting | None:
        """The message that is next on this connection, if it belongs to that channel."""
        for message in self._waiting:
            if not message.heartbeat:
                return message if message.label.channel == channel else None
        return None

    def deliver(self, message: Waiting) -> None:
        """Let one message pass, held or not."""
        self._waiting.remove(message)
        self._let_go(message)
        self._pump()

    def drop(self, message: Waiting) -> None:
        self._waiting.remove(message)
        self.lose()

    def lose(self) -> None:
        """Everything in flight here is gone, and whatever comes later."""
        self.lost = True
        self._head = b""
        self._left = 0
        self._collected = self._label = None
        self.clear()

    def clear(self) -> None:
        """Everything in flight here is gone: the receiver has ended."""
        self._flow.dropped += sum(not message.heartbeat for message in self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
