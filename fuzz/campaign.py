"""All of it together: frames on many connections, one attack after the other beside them, and the watch.

Rules of the file:

* What is sent is bounded: by a number of frames, or by time; but every attack is made at least once.
* Every frame ends as its fate says, or is trouble. Frames behind one that was refused are sent again.
* Whatever goes wrong is noted and the campaign goes on, as an attacker would, unless a broker has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from fuzz.attacks import Attack, Ground, bombs, halves, members, ports, sessions, storms
from fuzz.evidence import Sent
from fuzz.frames import Fate, Frame, Frames, waits_seconds
from fuzz.line import End, Ended, Line, open_line
from fuzz.target import Target
from fuzz.watch import Kind, Watch
from tidelog.cluster.directory import BrokerStatus

PAGE: Final = "page"
ATTACKS: Final[dict[str, Attack]] = {
    "compression bombs": bombs.compression,
    "announced frames": bombs.announced,
    "crowds": bombs.crowds,
    "large members": bombs.large_members,
    "half frames": halves.cut_short,
    "slow frames": halves.slowly,
    "frames left open": halves.left_open,
    "storms": storms.storm,
    "keeper": ports.keeper,
    "metrics": ports.metrics,
    PAGE: ports.page,
    "members": members.misbehave,
    "fetch sessions": sessions.confuse,
}

BURST: Final = 24
BURSTS_A_LINE: Final = 20
PATIENCE_SECONDS: Final = 20.0
_WAIT_SECONDS: Final = 0.03
_WAITS_CHECKED: Final = 50
"""One in so many frames that may wait is waited for, until it must have been answered."""
_CLOSED_OVER: Final = 8
"""One in so many frames that must be refused is sent right behind others."""
_LONGEST_WAIT_SECONDS: Final = 30.0
_LOOK_EVERY_SECONDS: Final = 1.0
_SWEEP_EVERY_SECONDS: Final = 3.0
_TELL_EVERY_SECONDS: Final = 10.0
_UNREACHABLE_MAX: Final = 200
_HUNG_MAX: Final = 40
"""After so many the rest would only be waiting."""


@dataclass(slots=True, frozen=True)
class Plan:
    seed: int = 1
    frames: int | None = 100_000
    """None: as many as fit in the time."""
    seconds: float | None = None
    lines: int = 24
    """Connections to each broker."""
    attacks: tuple[str, ...] = tuple(ATTACKS)
    patience_seconds: float = PATIENCE_SECONDS
    """Each frame is answered, or its connection closed, within this time."""
    stall_seconds_max: float = 10.0
    """So long the neighbour may wait for an acknowledgement."""
    probe_seconds_max: float = 5.0
    """So long an answer to ApiVersions may take meanwhile."""
    warm_up_frames: int = 10_000
    """At most a fifth of all."""
    warm_up_seconds: float = 60.0
    """Whichever is over first."""


@dataclass(slots=True)
class Tally:
    """What became of the frames."""

    sent: int = 0
    ends: Counter[End] = field(default_factory=Counter)
    fates: Counter[Fate] = field(default_factory=Counter)
    how: Counter[str] = field(default_factory=Counter)
    versions: set[tuple[int, int]] = field(default_factory=set)
    """API and version of every frame that could be decoded."""
    connections: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the attacker."""


class Campaign:
    def __init__(
        self,
        plan: Plan,
        target: Target,
        watch: Watch,
        frames: Frames,
        sent: Sent,
        *,
        page: tuple[str, int] | None = None,
        said: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._plan = plan
        self._target = target
        self._watch = watch
        self._frames = frames
        self._sent = sent
        self._said = said
        self._again: deque[Frame] = deque()
        self._next = 0
        self._waits = 0
        self._unreachable = 0
        self._all_made = asyncio.Event()
        """Whether every attack was made once."""
        self._down = False
        """Whether a broker has ended."""
        self._deadline = float("inf")
        self.tally = Tally()
        self.ground = Ground(target, frames, Random(plan.seed), watch.trouble, page)

    async def run(self) -> None:
        began, cpu_before = time.monotonic(), time.process_time()
        if self._plan.seconds is not None:
            self._deadline = began + self._plan.seconds
        beside = [
            asyncio.create_task(self._attack()),
            asyncio.create_task(self._look(began)),
            asyncio.create_task(self._sweep()),
        ]
        lines = [broker for broker in self._target.brokers for _ in range(self._plan.lines)]
        try:
            await asyncio.gather(self._all_made.wait(), *map(self._send_on_lines, lines))
        finally:
            self.tally.seconds = time.monotonic() - began
            self.tally.cpu_seconds = time.process_time() - cpu_before
            for task in beside:
                task.cancel()
            for result in await asyncio.gather(*beside, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    @property
    def over(self) -> bool:
        every = self._plan.frames
        return (
            (every is not None and self._next >= every and not self._again)
            or time.monotonic() >= self._deadline
            or self._down
            or self._unreachable > _UNREACHABLE_MAX
            or self.tally.ends[End.HUNG] > _HUNG_MAX
        )

    # ------------------------------------------------------------ frames

    async def _send_on_lines(self, broker: BrokerStatus) -> None:
        while not self.over:
            try:
                line = await open_line(broker.host, broker.port, broker.pid)
            except OSError:
                self._unreachable += 1
                await asyncio.sleep(0.1)
                continue
            self.tally.connections += 1
            try:
                await self._send_on(line, broker)
            finally:
                line.close()

    async def _send_on(self, line: Line, broker: BrokerStatus) -> None:
        for _ in range(BURSTS_A_LINE):
            burst = self._burst()
            if not burst:
                return
            self._sent.note(broker.id, line.local_port, burst)
            full = burst[-1].fate is Fate.WAIT and self._is_checked()
            wait = _LONGEST_WAIT_SECONDS if full else _WAIT_SECONDS
            ended = await line.burst(burst, self._plan.patience_seconds, wait)
            self._count(burst, ended)
            if ended.end is End.HUNG or (full and ended.end is End.LEFT and self._is_late(burst[-1])):
                why = ended.why or f"{burst[-1].named}: no answer in {wait:g} s"
                self._watch.trouble(Kind.HUNG, f"broker {broker.id}: {why}")
                self._sent.keep(broker.id, line.local_port, why)
            elif ended.end is End.WRONG:
                self._watch.trouble(Kind.WRONG, f"broker {broker.id}: {ended.why}")
                self._sent.keep(broker.id, line.local_port, ended.why)
            if ended.end is not End.ANSWERED:
                return

    def _burst(self) -> list[Frame]:
        """The next frames; behind one that is refused or may wait nothing is sent. Mostly one that is refused
        is sent by itself: a connection that is closed takes the answers to come with it."""
        burst: list[Frame] = []
        while len(burst) < BURST:
            if self._again:
                frame = self._again.popleft()
            elif self.over:
                break
            else:
                frame = self._frames.frame(self._next)
                self._next += 1
            if burst and frame.fate is Fate.CLOSE and frame.number % _CLOSED_OVER:
                self._again.appendleft(frame)
                break
            burst.append(frame)
            if frame.fate is not Fate.ANSWER:
                break
        return burst

    def _is_checked(self) -> bool:
        self._waits += 1
        return self._waits % _WAITS_CHECKED == 0

    def _is_late(self, frame: Frame) -> bool:
        return waits_seconds(frame) < _LONGEST_WAIT_SECONDS - PATIENCE_SECONDS / 2

    def _count(self, burst: list[Frame], ended: Ended) -> None:
        """What became of each frame. Behind one that a handler refused nothing was looked at."""
        tally = self.tally
        answered, rest = burst[: ended.answered], burst[ended.answered :]
        if ended.end is End.REFUSED:
            self._again.extend(rest[1:])
            rest = rest[:1]
        tally.ends[End.ANSWERED] += len(answered)
        if rest:
            # Those before the last were cut off: their connection was closed before it was their turn.
            tally.ends[End.CUT_OFF] += len(rest) - 1
            tally.ends[ended.end] += 1
        for frame in (*answered, *rest):
            tally.sent += 1
            tally.fates[frame.fate] += 1
            tally.how[frame.how.value] += 1
            if frame.header is not None:
                tally.versions.add((frame.header.api_key, frame.header.api_version))

    # ------------------------------------------------------------ beside them

    async def _attack(self) -> None:
        """One after the other, for as long as there are frames."""
        while not self._down:
            for name in self._plan.attacks:
                await ATTACKS[name](self.ground)
            self._all_made.set()
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _look(self, began: float) -> None:
        warm, told = False, began
        while True:
            self._watch.look()
            if not self._watch.all_alive:
                self._down = True
                self._all_made.set()
            if time.monotonic() > told + _TELL_EVERY_SECONDS:
                told = time.monotonic()
                rate = self.tally.sent / (told - began)
                self._said(
                    f"{self.tally.sent:,} frames, {rate:,.0f}/s, {len(self._watch.troubles)} troubles, "
                    f"{len(self._watch.log.tracebacks)} tracebacks"
                )
                await asyncio.to_thread(self._watch.read_metrics)
            plan = self._plan
            enough = self.tally.sent >= min(plan.warm_up_frames, (plan.frames or 1 << 60) // 5)
            if not warm and (enough or time.monotonic() > began + plan.warm_up_seconds):
                warm = True
                await asyncio.to_thread(self._watch.warmed_up)
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_EVERY_SECONDS)
            await asyncio.to_thread(self._target.sweep)
