"""Encoders and decoders, each compiled when it is first needed and kept for good.

There are at most a few hundred pairs of message and version, and a process meets a few dozen.
"""

from __future__ import annotations

from typing import Any

from tidelog.wire.decoder import Decoder, compile_decoder
from tidelog.wire.encoder import Encoder, compile_encoder
from tidelog.wire.primitives import Buffer

_Key = tuple[type[Any], int, bool]
_decoders: dict[_Key, Decoder] = {}
_encoders: dict[_Key, Encoder] = {}


def decoder(cls: type[Any], version: int, flexible: bool) -> Decoder:
    key = (cls, version, flexible)
    if key not in _decoders:
        _decoders[key] = compile_decoder(cls, version, flexible)
    return _decoders[key]


def encoder(cls: type[Any], version: int, flexible: bool) -> Encoder:
    key = (cls, version, flexible)
    if key not in _encoders:
        _encoders[key] = compile_encoder(cls, version, flexible)
    return _encoders[key]


def decode(cls: type[Any], version: int, flexible: bool, data: Buffer) -> Any:
    """A message without its header. `ProtocolError` unless it fills `data` exactly."""
    view = memoryview(data)
    return decoder(cls, version, flexible)(view, 0, len(view))


def encode(message: Any, version: int, flexible: bool) -> bytes:
    """A message without its header, in one piece."""
    return b"".join(encoder(type(message), version, flexible)(message, bytearray()))
