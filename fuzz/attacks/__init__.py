"""What is no mutated frame: bombs, half frames, storms of connections, members of groups and fetch sessions
that misbehave, JSON and HTTP for the other ports. Each attack is over in seconds; a campaign runs one after
the other beside its frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from fuzz.frames import Frame, Frames
from fuzz.line import End, Ended, open_line
from fuzz.target import Target
from fuzz.watch import Kind
from tidelog.cluster.directory import BrokerStatus

PATIENCE_SECONDS = 30.0
"""An answer to something large may take so long. No other client has to wait for it meanwhile."""


@dataclass(slots=True)
class Ground:
    """Where an attack takes place, and whom it tells."""

    target: Target
    frames: Frames
    dice: Random
    trouble: Callable[[Kind, str], None]
    page: tuple[str, int] | None = None
    """Where the lab's page is served, if it is."""
    tally: Counter[str] = field(default_factory=Counter)

    def any_broker(self) -> BrokerStatus:
        return self.dice.choice(self.target.brokers)

    async def send(self, what: str, frame: Frame, broker: BrokerStatus) -> Ended | None:
        """One frame on a connection of its own: it is answered or its connection closed, or there is trouble.
        None: no process listens."""
        try:
            line = await open_line(broker.host, broker.port, broker.pid)
        except OSError:
            return None
        try:
            ended = await line.burst([frame], PATIENCE_SECONDS, PATIENCE_SECONDS)
        finally:
            line.close()
        self.tally[what] += 1
        if ended.end in (End.HUNG, End.LEFT):
            self.trouble(Kind.HUNG, f"{what}: {ended.why or 'no answer'}")
        elif ended.end is End.WRONG:
            self.trouble(Kind.WRONG, f"{what}: {ended.why}")
        return ended


Attack = Callable[[Ground], Awaitable[None]]
