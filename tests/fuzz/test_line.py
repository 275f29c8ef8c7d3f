"""What is wrong with a broker is seen on its connections: each kind of wrong by a broker that is wrong so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from struct import pack

import pytest
import uvloop
from fuzz.frames import Fate, Frame, How
from fuzz.line import QUESTION, End, Ended, open_line

PATIENCE_SECONDS = 0.2
NO_REQUEST = Frame(1, b"\xff\xff\xff", How.BYTES, Fate.CLOSE, None)
WAITS = QUESTION._replace(fate=Fate.WAIT)
UNANSWERED = QUESTION._replace(fate=Fate.SILENCE)

Answer = Callable[[int], bytes]


def answered(number: int) -> bytes:
    """ApiVersions 0: no error, no APIs."""
    return pack(">iihi", 10, number, 0, 0)


def with_anothers_id(number: int) -> bytes:
    return answered(number + 1)


def too_short(number: int) -> bytes:
    return pack(">iih", 6, number, 0)


def twice(number: int) -> bytes:
    return answered(number) * 2


def in_vain(number: int) -> bytes:
    return b""


def met(answer: Answer | None, *frames: Frame, closes_after: int = 1 << 30) -> Ended:
    """What becomes of a burst at a broker that answers like that, or closes on its Nth frame."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(1, 1 << 30):
            try:
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                break
            if number > closes_after or answer is None:
                break
            writer.write(answer(number))
        writer.close()

    async def run() -> Ended:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        line = await open_line(*server.sockets[0].getsockname())
        try:
            return await line.burst(frames, PATIENCE_SECONDS, PATIENCE_SECONDS)
        finally:
            line.close()
            server.close()
            await server.wait_closed()

    return uvloop.run(run())


@pytest.mark.parametrize(
    ("answer", "frames", "end", "count"),
    [
        (answered, [QUESTION, QUESTION], End.ANSWERED, 2),
        (answered, [QUESTION, WAITS], End.ANSWERED, 2),
        (None, [NO_REQUEST], End.CLOSED, 0),
        (None, [QUESTION], End.REFUSED, 0),
        (in_vain, [QUESTION], End.HUNG, 0),
        (in_vain, [NO_REQUEST], End.HUNG, 0),
        (in_vain, [WAITS], End.LEFT, 0),
        (with_anothers_id, [QUESTION], End.WRONG, 1),
        (too_short, [QUESTION], End.WRONG, 1),
        (twice, [QUESTION], End.WRONG, 1),
    ],
)
def test_each_end_is_told(answer: Answer | None, frames: list[Frame], end: End, count: int) -> None:
    ended = met(answer, *frames)
    assert (ended.end, ended.answered) == (end, count)
    assert bool(ended.why) == (end in (End.HUNG, End.WRONG))


def test_a_refusal_in_the_middle() -> None:
    """What was answered before it counts; what came behind it does not."""
    assert met(answered, *[QUESTION] * 5, closes_after=2) == Ended(End.REFUSED, 2)


def test_a_frame_without_an_answer_is_followed_by_a_question() -> None:
    """Whose answer says that the broker has gone on."""

    def second_only(number: int) -> bytes:
        return b"" if number == 1 else answered(1)

    assert met(second_only, UNANSWERED).end is End.ANSWERED


def test_bursts_of_any_length_end() -> None:
    """However many questions, however the broker's bytes are cut."""
    for seed in range(5):
        count = Random(seed).randint(1, 60)
        assert met(answered, *[QUESTION] * count) == Ended(End.ANSWERED, count)
