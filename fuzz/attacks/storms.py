"""Very many connections at once."""

from __future__ import annotations

import asyncio
from typing import Final

from fuzz.attacks import Ground
from fuzz.line import QUESTION, Line, open_line

_CONNECTIONS: Final = 400
_AT_ONCE: Final = 100
_PATIENCE_SECONDS: Final = 30.0


async def storm(ground: Ground) -> None:
    """Hundreds of connections to one broker: some ask, some say nothing, all of them leave at once."""
    broker = ground.any_broker()
    lines: list[Line] = []
    for _ in range(_CONNECTIONS // _AT_ONCE):
        opening = [open_line(broker.host, broker.port, broker.pid) for _ in range(_AT_ONCE)]
        opened = await asyncio.gather(*opening, return_exceptions=True)
        lines += [line for line in opened if isinstance(line, Line)]
    ground.tally["connection of a storm"] += len(lines)
    talking = lines[:: ground.dice.choice((2, 5, 20))]
    await asyncio.gather(
        *(line.burst([QUESTION], _PATIENCE_SECONDS, 0.0) for line in talking if line.is_open)
    )
    for line in lines:
        line.close()
