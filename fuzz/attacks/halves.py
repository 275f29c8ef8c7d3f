"""Connections that end, or stop, in the middle of a frame; and some that take their time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from struct import pack
from typing import Final

from fuzz.attacks import PATIENCE_SECONDS, Ground
from fuzz.frames import Fate
from fuzz.line import QUESTION
from fuzz.target import IDLE_SECONDS
from fuzz.watch import Kind

_LONGEST: Final = 120
_AT_ONCE: Final = 16
_DRIPPERS: Final = 6
_DRIP_SECONDS: Final = 0.01
_LEFT_OPEN: Final = 6


async def cut_short(ground: Ground) -> None:
    """One frame, sent up to each of its bytes in turn, each time on a new connection that ends there."""
    number = ground.dice.randrange(1 << 40)
    frame = ground.frames.frame(number)
    while frame.fate is not Fate.ANSWER or len(frame.data) > _LONGEST:
        number += 1
        frame = ground.frames.frame(number)
    whole = pack(">i", len(frame.data)) + frame.data
    sizes = range(len(whole))
    for start in range(0, len(sizes), _AT_ONCE):
        together = sizes[start : start + _AT_ONCE]
        await asyncio.gather(*(_send_and_leave(ground, whole[:size]) for size in together))


async def _send_and_leave(ground: Ground, data: bytes) -> None:
    broker = ground.any_broker()
    with suppress(OSError):
        _, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(data)
        ground.tally["half frame"] += 1
        if ground.dice.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()


async def slowly(ground: Ground) -> None:
    """A question of a few bytes, one byte at a time: it is answered in the end."""
    await asyncio.gather(*(_drip(ground) for _ in range(_DRIPPERS)))


async def _drip(ground: Ground) -> None:
    broker = ground.any_broker()
    try:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
    except OSError:
        return
    try:
        for byte in pack(">i", len(QUESTION.data)) + QUESTION.data:
            writer.write(bytes((byte,)))
            await asyncio.sleep(_DRIP_SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reader.readexactly(8)
        ground.tally["slow frame"] += 1
    except (TimeoutError, OSError, asyncio.IncompleteReadError):
        ground.trouble(Kind.HUNG, "a frame that came byte by byte was not answered")
    finally:
        writer.transport.abort()


async def left_open(ground: Ground) -> None:
    """Half a frame, and then nothing: the broker closes the connection when it has been idle for too long."""
    await asyncio.gather(*(_stop_in_the_middle(ground) for _ in range(_LEFT_OPEN)))


async def _stop_in_the_middle(ground: Ground) -> None:
    broker = ground.any_broker()
    try:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
    except OSError:
        return
    try:
        writer.write(pack(">i", 1_000) + bytes(ground.dice.randrange(1_000)))
        async with asyncio.timeout(2 * IDLE_SECONDS + PATIENCE_SECONDS):
            with suppress(ConnectionResetError):
                await reader.read(1)
        ground.tally["frame left open"] += 1
    except TimeoutError:
        ground.trouble(Kind.SURVIVED, f"half a frame kept its connection for {2 * IDLE_SECONDS:g} s")
    finally:
        writer.transport.abort()
