"""Serializers of the application: the ledger needs the bytes before the library does. Each is called once."""

from __future__ import annotations

from inspect import signature
from typing import Any


class _Serialized(bytes):
    """Bytes that a serializer made already."""

    __slots__ = ()


class _Once:
    """A serializer that passes on what it made itself: the proxy serializes, then the library asks again."""

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer
        serialize = getattr(serializer, "serialize", None)
        # kafka-python's class, which got a second argument in version 3
        self._arguments = len(signature(serialize).parameters) if serialize is not None else 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serializer, name)

    def __call__(self, value: Any) -> Any:
        return bytes(value) if type(value) is _Serialized else self._serializer(value)

    def serialize(self, topic: str, headers: Any, value: Any) -> Any:
        if type(value) is _Serialized:
            return bytes(value)
        if self._arguments == 1:
            return self._serializer(value)
        return self._serializer.serialize(topic, *[headers][: self._arguments - 2], value)


def once(serializer: Any) -> Any:
    return serializer if serializer is None or isinstance(serializer, _Once) else _Once(serializer)


def to_bytes(serializer: Any, topic: str, headers: Any, value: Any) -> Any:
    if serializer is None:
        return value
    made = serializer.serialize(topic, headers, value)
    return made if made is None else _Serialized(made)
