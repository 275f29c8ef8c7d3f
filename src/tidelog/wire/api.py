"""Encode and decode whole frames. The other packages use `wire` through this module.

A frame is a header and a body; on the stream its length goes before it. Decoders take a frame without its
length, encoders return it with its length, as buffers ready for one vectored write.

Headers (KIP-482): a request of a flexible version has header version 2, any other 1, except that
ControlledShutdown 0 has 0, without a client id. The client id is a legacy string in all of them. A response
has header version 1 if flexible and 0 otherwise; ApiVersions always 0, because a client that asks does not
know yet what the broker understands.

The `_in_steps` functions are generators for large messages. The broker serves other connections between two
steps.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Any

from tidelog.wire.api_keys import Api, ApiSchema, find_schema
from tidelog.wire.codec import decoder, decoder_in_steps, encoder, encoder_in_steps
from tidelog.wire.codec.decoding import Decoder, DecoderInSteps
from tidelog.wire.codec.encoding import Encoder, EncoderInSteps
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import Buffer, skip_tagged_fields

__all__ = [
    "Api",
    "Buffer",
    "RequestHeader",
    "UnknownApi",
    "UnsupportedVersion",
    "decode_request",
    "decode_request_in_steps",
    "decode_response",
    "encode_request",
    "encode_response",
    "encode_response_in_steps",
]


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnknownApi(ProtocolError):
    """The request has an API key that this package does not describe."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"there is no API with key {header.api_key}")
        self.header = header


class UnsupportedVersion(ProtocolError):
    """The API is known, the version is not. The broker still answers ApiVersions, using `header`.

    The client id in `header` is None: the layout of the header depends on the unknown version.
    """

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"{Api(header.api_key).name} has no version {header.api_version} here")
        self.header = header


_FIRST_FIELDS = Struct(">hhih")
_LENGTH = Struct(">i")
_LENGTH_AND_ID = Struct(">ii")
_REQUEST_START = Struct(">ihhi")

# ---------------------------------------------------------------- requests


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """The header and the body. Record sets in the body are views into `frame`."""
    view = memoryview(frame)
    header, position, decode = _request_start(view)
    return header, decode(view, position, len(view))


def decode_request_in_steps(frame: Buffer) -> Generator[None, None, tuple[RequestHeader, Any]]:
    """`decode_request` as a generator. Also raises `ProtocolError` if the elements would take too much
    memory."""
    view = memoryview(frame)
    header, position, _ = _request_start(view)
    decode = _request_decoder_in_steps(header.api_key, header.api_version)
    return header, (yield from decode(view, position, len(view)))


def _request_start(view: memoryview) -> tuple[RequestHeader, int, Decoder]:
    """The header, the position behind it, and the decoder of the body."""
    limit = len(view)
    try:
        key, version, correlation_id, length = _FIRST_FIELDS.unpack_from(view)
    except StructError:
        raise ProtocolError(f"a request of {limit} bytes has no room for its header") from None
    position = 10
    header = RequestHeader(key, version, correlation_id, None)
    try:
        decode, flexible, has_client_id = _request_decoder(key, version)
    except _NotDescribed:
        raise _refusal(header) from None
    if not has_client_id:
        position = 8
    elif length >= 0:
        position += length
        if position > limit:
            raise ProtocolError("the client id reaches beyond the frame")
        try:
            header.client_id = str(view[10:position], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
    if flexible:
        position = _after_tagged_fields(view, position, limit)
    return header, position, decode


def encode_request(
    api: int, version: int, correlation_id: int, client_id: str | None, body: Any
) -> list[Buffer]:
    """The whole frame, including its length."""
    encode, flexible, has_client_id = _request_encoder(api, version)
    out = bytearray(_REQUEST_START.pack(0, api, version, correlation_id))
    if not has_client_id:
        pass
    elif client_id is None:
        out += b"\xff\xff"
    else:
        data = client_id.encode()
        out += len(data).to_bytes(2, "big")
        out += data
    if flexible:
        out.append(0)
    return _with_length(out, encode(body, out))


# ---------------------------------------------------------------- responses


def encode_response(header: RequestHeader, body: Any) -> list[Buffer]:
    """The whole frame, including its length, that answers the request with this header."""
    encode, flexible = _response_encoder(header.api_key, header.api_version)
    out = bytearray(_LENGTH_AND_ID.pack(0, header.correlation_id))
    if flexible:
        out.append(0)
    return _with_length(out, encode(body, out))


def encode_response_in_steps(header: RequestHeader, body: Any) -> Generator[None, None, list[Buffer]]:
    """`encode_response` as a generator."""
    encode, flexible = _response_encoder_in_steps(header.api_key, header.api_version)
    out = bytearray(_LENGTH_AND_ID.pack(0, header.correlation_id))
    if flexible:
        out.append(0)
    return _with_length(out, (yield from encode(body, out)))


def decode_response(api: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and the body of a response to a request of this API and version."""
    decode, flexible = _response_decoder(api, version)
    view = memoryview(frame)
    limit = len(view)
    if limit < 4:
        raise ProtocolError(f"a response of {limit} bytes has no room for its header")
    (correlation_id,) = _LENGTH.unpack_from(view)
    position = _after_tagged_fields(view, 4, limit) if flexible else 4
    return correlation_id, decode(view, position, limit)


# ---------------------------------------------------------------- shared by both


def _with_length(first: bytearray, buffers: list[Buffer]) -> list[Buffer]:
    size = len(first) if len(buffers) == 1 else sum(map(len, buffers))
    _LENGTH.pack_into(first, 0, size - 4)
    return buffers


def _after_tagged_fields(view: memoryview, position: int, limit: int) -> int:
    """The position behind a header's tagged fields. All of them are skipped."""
    try:
        if view[position] == 0:
            return position + 1
        return skip_tagged_fields(view, position, limit)
    except IndexError:
        raise ProtocolError("the header reaches beyond the frame") from None


@cache  # exceptions are not cached: a client may send any of 2^32 unsupported pairs
def _request_decoder(key: int, version: int) -> tuple[Decoder, bool, bool]:
    known = _described(key, version)
    flexible = known.flexible(version)
    return decoder(known.request, version, flexible), flexible, _has_client_id(key, version)


@cache
def _request_decoder_in_steps(key: int, version: int) -> DecoderInSteps:
    known = _described(key, version)
    return decoder_in_steps(known.request, version, known.flexible(version))


@cache
def _request_encoder(key: int, version: int) -> tuple[Encoder, bool, bool]:
    known = _described(key, version)
    flexible = known.flexible(version)
    return encoder(known.request, version, flexible), flexible, _has_client_id(key, version)


@cache
def _response_encoder(key: int, version: int) -> tuple[Encoder, bool]:
    """The encoder of the body, and whether the header is flexible."""
    known = _described(key, version)
    flexible = known.flexible(version)
    return encoder(known.response, version, flexible), flexible and key != Api.API_VERSIONS


@cache
def _response_encoder_in_steps(key: int, version: int) -> tuple[EncoderInSteps, bool]:
    known = _described(key, version)
    flexible = known.flexible(version)
    return encoder_in_steps(known.response, version, flexible), flexible and key != Api.API_VERSIONS


@cache
def _response_decoder(key: int, version: int) -> tuple[Decoder, bool]:
    """The decoder of the body, and whether the header is flexible."""
    known = _described(key, version)
    flexible = known.flexible(version)
    return decoder(known.response, version, flexible), flexible and key != Api.API_VERSIONS


def _has_client_id(key: int, version: int) -> bool:
    return not (key == Api.CONTROLLED_SHUTDOWN and version == 0)


class _NotDescribed(ValueError):
    """This package does not describe the API, or not in this version."""


def _described(key: int, version: int) -> ApiSchema:
    known = find_schema(key)
    if known is None or version not in known.versions:
        raise _NotDescribed(f"API {key} version {version} is not described here")
    return known


def _refusal(header: RequestHeader) -> ProtocolError:
    return (UnknownApi if find_schema(header.api_key) is None else UnsupportedVersion)(header)
