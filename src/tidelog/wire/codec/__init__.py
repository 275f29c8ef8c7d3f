"""Encoders and decoders, each compiled on first use and kept.

There are at most a few hundred pairs of message and version, and a process uses a few dozen. Requests from
clients and long responses are handled in steps, by the same functions as generators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.wire.codec.decoding import Decoder, DecoderInSteps, compile_decoder, compile_decoder_in_steps
from tidelog.wire.codec.encoding import Encoder, EncoderInSteps, compile_encoder, compile_encoder_in_steps
from tidelog.wire.primitives import Buffer

Codec = TypeVar("Codec")
_compiled: dict[tuple[object, type[Any], int, bool], Any] = {}


def _kept(
    compile: Callable[[type[Any], int, bool], Codec], cls: type[Any], version: int, flexible: bool
) -> Codec:
    key = (compile, cls, version, flexible)
    if key not in _compiled:
        _compiled[key] = compile(cls, version, flexible)
    codec: Codec = _compiled[key]
    return codec


def decoder(cls: type[Any], version: int, flexible: bool) -> Decoder:
    return _kept(compile_decoder, cls, version, flexible)


def encoder(cls: type[Any], version: int, flexible: bool) -> Encoder:
    return _kept(compile_encoder, cls, version, flexible)


def decoder_in_steps(cls: type[Any], version: int, flexible: bool) -> DecoderInSteps:
    return _kept(compile_decoder_in_steps, cls, version, flexible)


def encoder_in_steps(cls: type[Any], version: int, flexible: bool) -> EncoderInSteps:
    return _kept(compile_encoder_in_steps, cls, version, flexible)


def decode(cls: type[Any], version: int, flexible: bool, data: Buffer) -> Any:
    """A message without its header. `ProtocolError` unless it fills `data` exactly."""
    view = memoryview(data)
    return decoder(cls, version, flexible)(view, 0, len(view))


def encode(message: Any, version: int, flexible: bool) -> bytes:
    """A message without its header, in one piece."""
    return b"".join(encoder(type(message), version, flexible)(message, bytearray()))
