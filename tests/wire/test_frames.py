"""Frames come out of a stream as they went in, however the stream is cut, and hostile sizes are refused."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.allocated import peak_bytes

from tidelog.wire.errors import ProtocolError
from tidelog.wire.frames import FIRST_ROOM_BYTES, GROWTH, SCRATCH_BYTES, FrameReader


def feed(reader: FrameReader, data: bytes) -> list[bytearray]:
    """What a transport does: fill the buffer it is given, as far as it goes, until nothing is left."""
    frames = []
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += reader.received(count)
    return frames


def stream(frames: list[bytes]) -> bytes:
    return b"".join(pack(">i", len(frame)) + frame for frame in frames)


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 400), min_size=1))
def test_any_cut_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    """However the network cuts the stream, the frames are those that were sent."""
    data, reader, found = stream(frames), FrameReader(1000), []
    position = 0
    while position < len(data):
        step = cuts[position % len(cuts)]
        found += feed(reader, data[position : position + step])
        position += step
    assert found == frames


def test_a_frame_larger_than_the_scratch_buffer() -> None:
    """Large frames are received in place, and what follows them is not lost."""
    large = bytes(range(256)) * (SCRATCH_BYTES // 64)
    reader = FrameReader(len(large))
    assert feed(reader, stream([b"before", large, b"after"])) == [b"before", large, b"after"]


def test_readers_share_the_scratch_buffer_without_mixing() -> None:
    """Two connections that interleave in the middle of a size prefix keep their bytes apart."""
    first, second = FrameReader(100), FrameReader(100)
    one, two = stream([b"first"]), stream([b"second"])
    assert feed(first, one[:2]) == []
    assert feed(second, two[:3]) == []
    assert feed(first, one[2:]) == [b"first"]
    assert feed(second, two[3:]) == [b"second"]


def test_frames_own_their_bytes() -> None:
    """A frame does not change when the next one is read."""
    reader = FrameReader(100)
    [kept] = feed(reader, stream([b"keep me"]))
    feed(reader, stream([b"another one"]))
    assert kept == b"keep me"


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_hostile_sizes_are_refused(size: int) -> None:
    """A negative size or one above the limit is an error before anything is allocated."""
    with pytest.raises(ProtocolError, match="allowed are 0 to 100"):
        feed(FrameReader(100), pack(">i", size))


def test_memory_follows_what_arrives() -> None:
    """A size is a promise: for a few bytes of a huge frame a few thousand are set aside, then more."""
    size = 100_000_000
    reader = FrameReader(size)

    def begin() -> None:
        nonlocal reader
        reader = FrameReader(size)
        feed(reader, pack(">i", size) + bytes(60))

    assert peak_bytes(begin, limit=20_000) <= 20_000
    arrived = 60
    for count in (5_000, 100_000, 1_000_000):
        assert feed(reader, bytes(count)) == []
        arrived += count
        assert arrived <= reader.held <= GROWTH * arrived


def test_what_a_growing_frame_wants_is_known_before() -> None:
    """Nothing as long as there is room; then as much as the next buffer takes."""
    reader = FrameReader(1_000_000)
    assert (reader.held, reader.room_wanted) == (0, 0)
    feed(reader, pack(">i", 1_000_000) + b"x")
    assert (reader.held, reader.room_wanted) == (FIRST_ROOM_BYTES, 0)
    feed(reader, bytes(FIRST_ROOM_BYTES - 1))
    wanted = reader.room_wanted
    assert wanted == (GROWTH - 1) * FIRST_ROOM_BYTES
    reader.buffer()
    assert (reader.held, reader.room_wanted) == (FIRST_ROOM_BYTES + wanted, 0)
