"""Frames and headers: who gets which, and what is refused."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_reader
from tests.wire.values import exchanges, finished, samples

from tidelog.wire import api, api_keys, messages
from tidelog.wire.api import (
    Api,
    RequestHeader,
    UnknownApi,
    UnsupportedVersion,
    decode_request,
    decode_request_in_steps,
    decode_response,
    encode_request,
    encode_response,
    encode_response_in_steps,
)
from tidelog.wire.api_keys import ApiSchema, find_schema
from tidelog.wire.codec import encode
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EXCHANGES = [
    pytest.param(known, version, id=f"{known.api.name}-v{version}") for known, version in exchanges()
]


def whole(buffers: list[Any]) -> bytes:
    """The frame without its length, which must be right."""
    data = b"".join(buffers)
    assert data[:4] == pack(">i", len(data) - 4)
    return data[4:]


@pytest.mark.parametrize(("known", "version"), EXCHANGES)
def test_a_request_arrives(known: ApiSchema, version: int) -> None:
    """Whatever the version, header and body of a request come out as they were put in."""
    for message in samples(known.request, version, known.flexible(version), 3, private=True):
        for client_id in ("client-Ü", "", None):
            frame = whole(encode_request(known.api, version, -7, client_id, message))
            header, body = decode_request(bytearray(frame))
            anonymous = known.api == Api.CONTROLLED_SHUTDOWN and version == 0
            assert header == RequestHeader(known.api, version, -7, None if anonymous else client_id)
            assert body == message
            assert finished(decode_request_in_steps(frame)) == (header, body)


@pytest.mark.parametrize(("known", "version"), EXCHANGES)
def test_a_response_arrives(known: ApiSchema, version: int) -> None:
    """Whatever the version, correlation id and body of a response come out as they were put in."""
    for message in samples(known.response, version, known.flexible(version), 3):
        header = RequestHeader(known.api, version, 1 << 30, "client")
        frame = whole(encode_response(header, message))
        assert whole(finished(encode_response_in_steps(header, message))) == frame
        assert decode_response(known.api, version, frame) == (1 << 30, message)


@pytest.mark.parametrize(
    ("known", "version"), [case for case in EXCHANGES if case.id != "CONTROLLED_SHUTDOWN-v0"]
)
def test_request_headers_are_kafkas(known: ApiSchema, version: int) -> None:
    """Header version 2 goes with flexible versions, 1 with the others, as kio reads them."""
    message = next(samples(known.request, version, known.flexible(version)))
    frame = whole(encode_request(known.api, version, 5, "me", message))
    cls: Any = KioHeader2 if known.flexible(version) else KioHeader1
    header, size = entity_reader(cls)(frame, 0)
    assert (header.request_api_key, header.request_api_version) == (known.api, version)
    assert (header.correlation_id, header.client_id) == (5, "me")
    assert frame[size:] == encode(message, version, known.flexible(version))


def test_controlled_shutdown_0_has_no_client_id() -> None:
    """The oldest request between brokers has a header of key, version and correlation id only."""
    frame = whole(encode_request(7, 0, 5, "me", ControlledShutdownRequest(broker_id=3)))
    assert frame == pack(">hhii", 7, 0, 5, 3)


def test_response_headers_end_with_a_tag_section_if_flexible() -> None:
    """A flexible response has one more byte in its header, except that of ApiVersions."""
    for known, version in exchanges():
        message = next(samples(known.response, version, known.flexible(version)))
        frame = whole(encode_response(RequestHeader(known.api, version, 5, None), message))
        flexible_header = known.flexible(version) and known.api != Api.API_VERSIONS
        expected_header = b"\x00\x00\x00\x05\x00" if flexible_header else b"\x00\x00\x00\x05"
        assert frame == expected_header + encode(message, version, known.flexible(version))


def test_unknown_tags_in_a_header_are_skipped() -> None:
    """A newer client may put unknown tags into its header."""
    frame = whole(
        encode_request(12, 4, 5, "me", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    )
    assert frame[12:13] == b"\x00"
    header, body = decode_request(frame[:12] + b"\x02\x00\x03abc\x88\x07\x00" + frame[13:])
    assert header.client_id == "me"
    assert body.member_id == "m"


def test_a_record_set_is_a_view_into_the_frame() -> None:
    """What a broker stores is the memory into which the socket was read: stamping it changes the frame."""
    message = ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"abc")])
        ],
    )
    for version in range(3, 10):
        frame = bytearray(whole(encode_request(Api.PRODUCE, version, 1, None, message)))
        _, body = decode_request(frame)
        records = body.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        records[:] = b"xyz"
        assert b"xyz" in frame


@pytest.mark.parametrize("version", range(4, 13))
def test_large_record_sets_are_sent_from_where_they_lie(version: int) -> None:
    """The buffers of a large record set appear in the answer themselves, between what was encoded."""
    chunks: list[Any] = [bytearray(b"a" * 3000), memoryview(b"b" * 9), b"c" * 2000]
    other = bytearray(b"d" * 1500)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(partition_index=0, high_watermark=1, records=chunks),
                    PartitionData(partition_index=1, high_watermark=1, records=b"small"),
                    PartitionData(partition_index=2, high_watermark=1, records=other),
                    PartitionData(partition_index=3, high_watermark=1, records=[]),
                    PartitionData(partition_index=4, high_watermark=1, records=None),
                ],
            )
        ]
    )
    buffers = encode_response(RequestHeader(Api.FETCH, version, 9, None), response)
    for chunk in (*chunks, other):
        assert any(buffer is chunk for buffer in buffers)
    _, body = decode_response(Api.FETCH, version, whole(buffers))
    received = [partition.records for partition in body.responses[0].partitions]
    assert received == [b"".join(chunks), b"small", other, b"", None]


def test_error_codes_may_be_given_as_such() -> None:
    """A handler writes `ErrorCode.X`; a reader gets the number."""
    header = RequestHeader(Api.API_VERSIONS, 0, 1, None)
    frame = whole(
        encode_response(header, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[]))
    )
    _, body = decode_response(Api.API_VERSIONS, 0, frame)
    assert body.error_code == 35
    assert type(body.error_code) is int


# ---------------------------------------------------------------- what is refused


def test_a_client_from_the_future_is_told_what_we_speak() -> None:
    """ApiVersions in an unknown version can be answered: the refusal carries the header to answer to."""
    frame = pack(">hhih", 18, 99, 1234, 2) + b"me" + b"\x00whatever comes in version 99"
    with pytest.raises(UnsupportedVersion) as refusal:
        decode_request(frame)
    header = refusal.value.header
    assert (header.api_key, header.api_version, header.correlation_id) == (18, 99, 1234)
    answer = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3)],
    )
    header.api_version = 0
    assert decode_response(18, 0, whole(encode_response(header, answer))) == (1234, answer)


@pytest.mark.parametrize("version", [-1, 0, 2, 10, 32767])
def test_versions_that_are_not_spoken_are_refused(version: int) -> None:
    """Produce 0 to 2 are listed for old clients, but cannot be used."""
    with pytest.raises(UnsupportedVersion, match="PRODUCE"):
        decode_request(pack(">hhih", 0, version, 1, -1) + bytes(20))


@pytest.mark.parametrize("key", [-1, 27, 34, 99, 999, 32767])
def test_unknown_keys_are_refused(key: int) -> None:
    """Whether Kafka has such an API or not: it is not described here."""
    with pytest.raises(UnknownApi, match=str(key)):
        decode_request(pack(">hhih", key, 0, 1, -1))


def test_what_is_refused_is_not_remembered() -> None:
    """There are 2^32 keys and versions, and each would take memory for good."""
    remembered = api._request_decoder.cache_info().currsize
    for key in (Api.METADATA, 27, 500):
        for version in range(1000, 1100):
            with pytest.raises(ProtocolError):
                decode_request(pack(">hhih", key, version, 1, -1))
    assert api._request_decoder.cache_info().currsize == remembered


def test_a_schema_that_cannot_be_loaded_is_not_taken_for_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is not hidden behind an answer that says the API is unknown."""
    (tmp_path / "envelope.py").write_text("import tidelog.wire.no_such_module\n")
    monkeypatch.setattr(messages, "__path__", [*messages.__path__, str(tmp_path)])
    monkeypatch.delitem(api_keys._schemas, Api.ENVELOPE)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        find_schema(Api.ENVELOPE)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "no room"),
        (pack(">hhi", 18, 0, 1), "no room"),
        (pack(">hhih", 18, 0, 1, 5) + b"abcd", "client id"),
        (pack(">hhih", 18, 0, 1, 2) + b"\xff\xff", "UTF-8"),
        (pack(">hhih", 18, 3, 1, -1), "beyond the frame"),
        (pack(">hhih", 18, 3, 1, -1) + b"\x01\x00\x7f", "beyond the"),
    ],
)
def test_broken_headers_are_refused(frame: bytes, why: str) -> None:
    """Each way in which a header can be broken is a ProtocolError that says so."""
    with pytest.raises(ProtocolError, match=why):
        decode_request(frame)


def test_bytes_after_the_body_are_ignored() -> None:
    """Kafka does not look at them, and librdkafka sends one too many with Metadata v9."""
    header, body = decode_request(pack(">hhih", 18, 0, 1, -1) + b"\x00")
    assert (header.api_key, body) == (18, ApiVersionsRequest())


@pytest.mark.parametrize(("frame", "version"), [(b"\x00\x00\x00", 0), (b"\x00\x00\x00\x01", 9), (b"", 3)])
def test_short_responses_are_refused(frame: bytes, version: int) -> None:
    """A response too short for its header is a ProtocolError too."""
    with pytest.raises(ProtocolError):
        decode_response(Api.METADATA, version, frame)


def test_encoding_what_is_not_spoken_is_our_own_mistake() -> None:
    """Asking for a version that does not exist is a bug of the caller, not of a peer."""
    with pytest.raises(ValueError, match="version 99"):
        encode_request(18, 99, 1, None, ApiVersionsRequest())
    with pytest.raises(ValueError, match="not described"):
        decode_response(999, 0, b"")
