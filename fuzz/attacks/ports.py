"""The other ports: the keeper's, which takes JSON, the metrics', which speak HTTP, and the lab's page."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from struct import pack
from typing import Final

from fuzz.attacks import PATIENCE_SECONDS, Ground
from fuzz.watch import Kind

_DEEP: Final = 200_000
_VISITORS: Final = 30


def _documents() -> list[bytes]:
    deep = b"[" * _DEEP + b"]" * _DEEP
    objects = b'{"hello":' * _DEEP + b"1" + b"}" * _DEEP
    return [
        *(b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b'"\\ud800"', b"1e999", b"NaN", b"-", b"[1,]"),
        *(deep, objects, b"9" * 100_000, b'{"hello":' + b"9" * 5_000 + b"}", deep[:_DEEP]),
        b'{"hello":"tidelog-keeper-1","timeout_ms":1e400,"session":-1,"secret":[]}',
        b'{"hello":"tidelog-keeper-1","timeout_ms":' + b"9" * 40 + b',"session":0,"secret":""}',
        b'{"hello":"tidelog-keeper-1","timeout_ms":5000,"session":"x","secret":null}',
        b'{"call":1,"operation":["multi",[["multi",[]]]]}',
        b'{"ping":1}',
    ]


DOCUMENTS: Final = _documents()


async def keeper(ground: Ground) -> None:
    """Frames that are no JSON, too deep, too long, or not what the keeper speaks: it hangs up, or answers."""
    at = ground.target.keeper
    data = ground.dice.choice(DOCUMENTS)
    for content in (pack(">I", len(data)) + data, pack(">I", 2**32 - 1) + data[:100], data[:100]):
        await _say(ground, "frame for the keeper", at.host, at.port, content, hangs_up=False)
    # What comes after a good hello, too.
    hello = b'{"hello":"tidelog-keeper-1","timeout_ms":4000,"session":0,"secret":""}'
    greeted = pack(">I", len(hello)) + hello + pack(">I", len(data)) + data
    await _say(ground, "frame for the keeper", at.host, at.port, greeted, hangs_up=False)


async def metrics(ground: Ground) -> None:
    """Heads that are endless, cut off or nonsense; and more visitors than are let in."""
    broker = ground.any_broker()
    if broker.metrics_port <= 0:
        return
    heads = (
        *(b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /x HTTP/1.1\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n"),
        *(b"\x00" * 100 + b"\r\n\r\n", b"GET " + b"/" * 20_000, b"\r\n\r\n", b"GET"),
    )
    said = [ground.dice.choice(heads) for _ in range(_VISITORS)]
    what = "visit of the metrics"
    await asyncio.gather(*(_say(ground, what, broker.host, broker.metrics_port, head) for head in said))


async def page(ground: Ground) -> None:
    """JSON that is none, or too deep: the page's server refuses it and goes on."""
    if ground.page is None:
        return
    host, port = ground.page
    body = ground.dice.choice([*DOCUMENTS, json.dumps({"text": "x" * 900_000}).encode()])
    head = (
        f"POST /api/play HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\nConnection: close"
    )
    answer = await _say(ground, "request to the page", host, port, head.encode() + b"\r\n\r\n" + body)
    status = answer.partition(b"\r\n")[0].split(b" ")
    if len(status) < 2 or status[1] not in (b"400", b"413", b"422"):
        ground.trouble(Kind.WRONG, f"the page answers {answer[:40]!r} to {body[:40]!r}")


async def _say(
    ground: Ground, what: str, host: str, port: int, content: bytes, *, hangs_up: bool = True
) -> bytes:
    """Send this, and read until the other side hangs up, which it must; or until a moment has passed."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return b""
    ground.tally[what] += 1
    answer = b""
    try:
        writer.write(content)
        async with asyncio.timeout(PATIENCE_SECONDS if hangs_up else 0.3):
            with suppress(OSError):
                await writer.drain()
                while part := await reader.read(65_536):
                    answer += part
    except TimeoutError:
        if hangs_up:
            ground.trouble(Kind.HUNG, f"{what}: {content[:40]!r} was neither answered nor refused")
    finally:
        writer.transport.abort()
    return answer
