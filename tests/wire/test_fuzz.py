"""Hostile bytes: whatever arrives is a message or a ProtocolError, and costs no more than its size allows."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.allocated import peak_bytes
from tests.wire.peers import KINDS, message_class
from tests.wire.values import exchanges, finished, samples

from tidelog.wire.api import Api, decode_request, decode_response, encode_request
from tidelog.wire.api_keys import ApiSchema
from tidelog.wire.codec import decode, decoder_in_steps, encode
from tidelog.wire.errors import ProtocolError
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.schema import Array, Struct, fields_of

EXCHANGES = list(exchanges())
# What an attacker writes where a length is expected: huge, negative, just too large, endless.
HOSTILE = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80",
    b"\xfe",
    b"\x00",
]


def message_or_refusal(known: ApiSchema, kind: str, version: int, body: bytes) -> Any:
    """The decoded message, or None if it was refused, both at once and in steps. Any other exception fails
    the test."""
    cls, flexible, view = message_class(known, kind), known.flexible(version), memoryview(body)
    try:
        message = decode(cls, version, flexible, body)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            finished(decoder_in_steps(cls, version, flexible)(view, 0, len(view)))
        return None
    assert finished(decoder_in_steps(cls, version, flexible)(view, 0, len(view))) == message
    return message


@given(st.sampled_from(EXCHANGES), st.sampled_from(KINDS), st.binary(max_size=120))
@settings(max_examples=1500)
def test_random_bodies(exchange: tuple[ApiSchema, int], kind: str, body: bytes) -> None:
    """Noise is a message or refused, and a message that came out of noise can be sent on."""
    known, version = exchange
    message = message_or_refusal(known, kind, version, body)
    if message is not None:
        flexible = known.flexible(version)
        again = encode(message, version, flexible)
        assert decode(type(message), version, flexible, again) == message


@given(st.binary(max_size=60))
@settings(max_examples=1000)
def test_random_frames(frame: bytes) -> None:
    """Noise instead of a whole request or response is refused."""
    with pytest.raises(ProtocolError):
        decode_request(b"\x7f" + frame)
    for known, version in (EXCHANGES[0], EXCHANGES[-1]):
        try:
            decode_response(known.api, version, frame)
        except ProtocolError:
            continue


@given(st.sampled_from(EXCHANGES), st.binary(max_size=80))
@settings(max_examples=1000)
def test_random_requests_behind_a_valid_start(exchange: tuple[ApiSchema, int], rest: bytes) -> None:
    """A good key and version do not make the rest good."""
    known, version = exchange
    try:
        header, _ = decode_request(pack(">hhi", known.api, version, 1) + rest)
    except ProtocolError:
        return
    assert header.api_key == known.api


@given(
    st.sampled_from(EXCHANGES), st.sampled_from(KINDS), st.integers(0, 5), st.randoms(use_true_random=False)
)
@settings(max_examples=2000)
def test_mutations(exchange: tuple[ApiSchema, int], kind: str, number: int, dice: Random) -> None:
    """A message with a few bytes changed, added, cut out or made hostile is a message or refused."""
    known, version = exchange
    cls = message_class(known, kind)
    message = list(samples(cls, version, known.flexible(version), number + 1))[-1]
    body = bytearray(encode(message, version, known.flexible(version)))
    for _ in range(dice.randint(1, 4)):
        place = dice.randint(0, len(body))
        match dice.randint(0, 3):
            case 0:
                body[place : place + 1] = dice.randbytes(1)
            case 1:
                body[place:place] = dice.randbytes(dice.randint(1, 9))
            case 2:
                del body[place : place + dice.randint(1, 9)]
            case 3:
                hostile = dice.choice(HOSTILE)
                body[place : place + len(hostile)] = hostile
    message_or_refusal(known, kind, version, bytes(body))


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind: str) -> None:
    """No message is the beginning of another one: what is cut off is never taken for whole."""
    for known, version in EXCHANGES:
        cls = message_class(known, kind)
        full = list(samples(cls, version, known.flexible(version), 2))[-1]
        body = encode(full, version, known.flexible(version))
        for size in {*range(0, min(len(body), 60)), *range(0, len(body), 37)}:
            assert message_or_refusal(known, kind, version, body[:size]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_behind_the_end_are_ignored(kind: str) -> None:
    """Whatever follows a message in its frame changes nothing: librdkafka sends a byte too many."""
    for known, version in EXCHANGES:
        for message in samples(message_class(known, kind), version, known.flexible(version), 2):
            body = encode(message, version, known.flexible(version))
            assert message_or_refusal(known, kind, version, body + b"\x00") == message


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_lengths_everywhere(kind: str) -> None:
    """Whichever bytes of a small message are overwritten with a hostile length, no harm is done."""
    dice = Random(kind)
    for known, version in EXCHANGES:
        for message in samples(message_class(known, kind), version, known.flexible(version), 2):
            body = encode(message, version, known.flexible(version))[:400]
            for place in range(0, len(body), 1 + len(body) // 24):
                hostile = dice.choice(HOSTILE)
                message_or_refusal(
                    known, kind, version, body[:place] + hostile + body[place + len(hostile) :]
                )


# ---------------------------------------------------------------- memory

# Objects take more room than their bytes; the densest message takes 38 times as much.
PER_BYTE = 48
CONSTANT = 16_384


def peak_of_decoding(known: ApiSchema, kind: str, version: int, body: bytes, limit: int) -> int:
    def decoded() -> None:
        with suppress(ProtocolError):
            decode(message_class(known, kind), version, known.flexible(version), body)

    return peak_bytes(decoded, limit=limit)


def densest(cls: type[Any], version: int, flexible: bool, count: int) -> Any:
    """A message of as many of the smallest elements as asked for, in each of its arrays."""
    (bare,) = samples(cls, version, flexible, 1)
    for field in fields_of(cls):
        if isinstance(field.kind, Array) and field.presence.includes(version):
            element = field.kind.element
            if isinstance(element, Struct):
                items = [next(samples(element.type, version, flexible)) for _ in range(count)]
                setattr(bare, field.name, items)
    return bare


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_bounded_by_the_size_of_the_frame(kind: str) -> None:
    """Decoding N bytes takes at most a small multiple of N, even where elements are as small as can be."""
    for known, version in EXCHANGES:
        if version not in (known.versions[0], known.versions[-1]):
            continue
        cls = message_class(known, kind)
        body = encode(densest(cls, version, known.flexible(version), 300), version, known.flexible(version))
        assert message_or_refusal(known, kind, version, body) is not None
        limit = PER_BYTE * len(body) + CONSTANT
        peak = peak_of_decoding(known, kind, version, body, limit)
        assert peak <= limit, f"{cls.__name__} v{version}: {peak} for {len(body)}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_lie_about_a_count_costs_nothing(kind: str) -> None:
    """A count of two thousand million in a message of a few bytes is refused before it takes memory."""
    for known, version in EXCHANGES:
        if version not in (known.versions[0], known.versions[-1]):
            continue
        (bare,) = samples(message_class(known, kind), version, known.flexible(version), 1)
        body = encode(bare, version, known.flexible(version))
        lie = b"\xff\xff\xff\xff\x07" if known.flexible(version) else b"\x7f\xff\xff\xff"
        for place in range(len(body)):
            hostile = body[:place] + lie + body[place + (1 if known.flexible(version) else 4) :] + bytes(64)
            assert peak_of_decoding(known, kind, version, hostile, CONSTANT) <= CONSTANT


def test_a_whole_frame_is_read_without_copying_its_records() -> None:
    """Decoding a Produce request of a megabyte takes a few kilobytes: the records stay where they are."""
    records = PartitionProduceData(index=0, records=bytes(1 << 20))
    topic = TopicProduceData(name="t", partition_data=[records])
    request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])
    frame = b"".join(encode_request(Api.PRODUCE, 9, 1, "me", request))[4:]
    _, body = decode_request(frame)
    assert len(body.topic_data[0].partition_data[0].records) == 1 << 20
    assert peak_bytes(lambda: decode_request(frame), limit=CONSTANT) <= CONSTANT
