"""The state that the parts of one coordinator share: configuration, time, and effects.

``now`` is a clock for deadlines with any origin. ``time_of_day`` is compared with timestamps that other
coordinators wrote into records, so it is the wall clock. The driver supplies both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.core.effects import ReplyTo, WakeAt
from tidelog.core.timers import Callback, Timer, Timers
from tidelog.core.types import Millis
from tidelog.groups.messages import Response
from tidelog.groups.records import Entry
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True, frozen=True)
class GroupConfig:
    """Settings of the coordinator, with Kafka's defaults."""

    session_timeout_ms_min: Millis = 6_000
    session_timeout_ms_max: Millis = 1_800_000
    initial_rebalance_delay_ms: Millis = 3_000
    members_max: int = (1 << 31) - 1
    metadata_length_max: int = 4_096
    retention_ms: Millis = 7 * 24 * 3_600_000


@dataclass(slots=True)
class GroupCounts:
    """Counters for metrics. The broker passes one tally to all of its coordinators, so it outlives each of
    them."""

    rebalances: int = 0
    """Generations that began with at least one member."""
    members_expired: int = 0
    commits: int = 0
    """Commit requests that succeeded for all their partitions."""
    positions: int = 0


@dataclass(slots=True, frozen=True)
class Answer:
    to: ReplyTo
    response: Response


@dataclass(slots=True, frozen=True)
class Write:
    """Append these records as one batch. The driver calls ``written`` with this number once they are
    committed or have failed."""

    number: int
    entries: tuple[Entry, ...]


Effect = Answer | Write | WakeAt
Then = Callable[[ErrorCode], None]


class GroupContext:
    __slots__ = ("_then", "_writes", "config", "draw_id", "effects", "now", "tally", "time_of_day", "timers")

    def __init__(
        self,
        config: GroupConfig,
        time_of_day: Callable[[], Millis],
        draw_id: Callable[[], str],
        tally: GroupCounts,
    ) -> None:
        self.config = config
        self.time_of_day = time_of_day
        self.draw_id = draw_id
        """Returns a new unique text."""
        self.tally = tally
        self.effects: list[Effect] = []
        self.timers = Timers()
        self.now: Millis = 0
        """The time of the current input."""
        self._writes = 0
        self._then: dict[int, Then] = {}

    def answer(self, to: ReplyTo, response: Response) -> None:
        self.effects.append(Answer(to, response))

    def set_timer(self, at: Millis, callback: Callback) -> Timer:
        timer = Timer(at, callback)
        wake_at = self.timers.set(timer)
        if wake_at is not None:
            self.effects.append(WakeAt(wake_at))
        return timer

    def wake(self, now: Millis) -> None:
        next_wake = self.timers.fire(now)
        if next_wake is not None:
            self.effects.append(WakeAt(next_wake))

    # ------------------------------------------------------------ writes

    def write(self, entries: tuple[Entry, ...], then: Then) -> None:
        """Request a write. Writes take effect in order, as in any log."""
        self._writes += 1
        self._then[self._writes] = then
        self.effects.append(Write(self._writes, entries))

    def written(self, number: int, error: ErrorCode) -> None:
        self._then.pop(number)(error)
