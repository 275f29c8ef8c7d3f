"""Large messages are decoded and encoded in steps, within a bound of memory.

That the steps come to the same as one go is checked where the messages are (`test_api`, `test_fuzz`).
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from tests.wire.values import finished

from tidelog.wire.api import (
    Api,
    RequestHeader,
    decode_request,
    decode_request_in_steps,
    encode_request,
    encode_response_in_steps,
)
from tidelog.wire.codec import decoding, encode
from tidelog.wire.codec.source import STEP_ELEMENTS
from tidelog.wire.errors import ProtocolError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tidelog.wire.primitives import TAGS_MAX, encode_uvarint

COUNT = 10_000


def framed(api: Api, version: int, body: object) -> bytes:
    return b"".join(encode_request(api, version, 1, "me", body))[4:]


def metadata(count: int) -> bytes:
    return framed(Api.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")] * count))


def numbers(count: int) -> bytes:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=list(range(count)))
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return framed(Api.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[group]))


def nested(count: int) -> bytes:
    """Partitions in small topics: no array is long."""
    parts = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(10)]
    topics = [FetchTopic(topic="t", partitions=parts)] * (count // 11)
    return framed(Api.FETCH, 12, FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics))


@pytest.mark.parametrize("make", [metadata, nested])
def test_steps_are_short_wherever_the_elements_are(make: Callable[[int], bytes]) -> None:
    """There is a step for every so many elements, however they are nested."""
    frame = make(COUNT)
    assert len(list(decode_request_in_steps(frame))) >= COUNT // STEP_ELEMENTS - 1


def test_a_long_array_of_numbers_takes_several_steps() -> None:
    """They are fast, but a million of them are not."""
    assert 2 <= len(list(decode_request_in_steps(numbers(500_000)))) <= 200
    assert finished(decode_request_in_steps(numbers(100_000))) == decode_request(numbers(100_000))


def test_a_long_answer_is_encoded_in_steps_and_a_short_one_at_once() -> None:
    header = RequestHeader(Api.METADATA, 9, 1, "me")

    def steps(count: int) -> int:
        topics = [MetadataResponseTopic(name="t", partitions=[])] * count
        answer = encode_response_in_steps(header, MetadataResponse(brokers=[], topics=topics))
        return len(list(answer))

    assert steps(COUNT) == COUNT // STEP_ELEMENTS
    assert steps(10) == 0


@pytest.mark.parametrize("make", [metadata, numbers, nested])
def test_elements_beyond_the_bound_are_refused_before_they_are_made(
    make: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are and however nested: the elements of one message share a bound."""
    bound = 1 << 20
    monkeypatch.setattr(decoding, "ELEMENTS_BYTES_MAX", bound)
    _, fitting = decode_request(make(1000))
    decode = decoding.compile_decoder_in_steps(type(fitting), 9, flexible=True)

    def peak(message: Any) -> int:
        view = memoryview(encode(message, 9, flexible=True))
        tracemalloc.start()
        try:
            finished(decode(view, 0, len(view)))
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return peaks[-1]

    peaks: list[int] = []
    assert peak(fitting) < bound
    with pytest.raises(ProtocolError, match="more memory than a request is given"):
        peak(decode_request(make(50_000))[1])
    assert peaks[-1] < 1.5 * bound


def test_a_frame_of_tags_is_refused() -> None:
    """Unknown tagged fields are skipped, but not millions of them."""
    few = encode_uvarint(TAGS_MAX) + bytes(2 * TAGS_MAX)
    many = encode_uvarint(1_000_000) + bytes(2_000_000)
    start = metadata(0)[:-1]
    decode_request(start + few)
    for read in (decode_request, lambda frame: finished(decode_request_in_steps(frame))):
        with pytest.raises(ProtocolError, match="tagged fields"):
            read(start + many)


def test_text_is_as_short_as_kafka_wants_it() -> None:
    """The length of a compact string has room for gigabytes; Kafka takes 32,767 bytes."""
    longest = framed(Api.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t" * 0x7FFF)]))
    assert len(decode_request(longest)[1].topics[0].name) == 0x7FFF
    longer = framed(Api.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t" * 0x8000)]))
    with pytest.raises(ProtocolError, match="impossible length"):
        decode_request(longer)
