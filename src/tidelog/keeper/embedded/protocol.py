"""The embedded keeper's wire format: frames of JSON, each after its length (four bytes, big-endian).

A client opens with ``hello`` and receives its session; then both sides may send at any time.

====================================================  =======================================================
client                                                keeper
====================================================  =======================================================
``{"hello": PROTOCOL, "timeout_ms": N,                ``{"session": id, "secret": s, "timeout_ms": N,
"session": id, "secret": s}``; id 0: a new session    "resumed": bool}``; or ``{"refused": why}``
``{"call": n, "operation": […]}``                     ``{"reply": n, "result": […]}``
``{"ping": 1}``                                       ``{"pong": 1}``
\\                                                     ``{"fired": path, "children": bool}``
``{"close": 1}``                                      ``{"closed": 1}``
====================================================  =======================================================

A client that reconnects sends its session and the secret of that session. If the session has ended, or is
unknown, it gets a new one (``resumed`` is false). Operations and results are lists (below); a value is the
text that ``values`` encodes, or null. The journal uses the same lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from tidelog.core.keeper_port import (
    Check,
    Children,
    Create,
    Delete,
    Get,
    KeeperError,
    Multi,
    Operation,
    Result,
    SetValue,
    Stat,
    StoredNode,
    Subtree,
    Write,
)

PROTOCOL = "tidelog-keeper-1"
REQUEST_BYTES_MAX = 4 * 1024 * 1024
"""Room for a topic of some hundred thousand partitions. A keeper buffers at most this for each connection."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Room for the subtree of some two hundred thousand partitions."""

MULTI = "multi"
SHOWN_LENGTH_MAX = 60

_LENGTH = Struct(">I")

Message = dict[str, Any]


class KeeperProtocolError(Exception):
    """The peer violated the protocol. The connection must be closed."""


def frame(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class JsonFrameReader:
    """Cuts a stream of bytes into messages."""

    __slots__ = ("_buffer", "_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._buffer = bytearray()
        self._bytes_max = bytes_max

    def feed(self, data: bytes) -> Iterator[Message]:
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > self._bytes_max:
                    raise KeeperProtocolError(
                        f"a frame of {length} bytes, at most {self._bytes_max} are allowed"
                    )
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    break
                body = bytes(self._buffer[start + _LENGTH.size : end])
                start = end
                yield _parse(body)
        finally:
            del self._buffer[:start]


def _parse(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise KeeperProtocolError("a frame that is not JSON") from None
    if not isinstance(message, dict):
        raise KeeperProtocolError("a frame that is not a JSON object")
    return message


def field(message: Message, name: str, kind: type) -> Any:
    """A required field of this type (``bool`` does not count as ``int``)."""
    value = message.get(name)
    if type(value) is not kind:
        raise KeeperProtocolError(f"{name!r} is {_shown(value)}, not {kind.__name__}")
    return value


def _shown(value: Any) -> str:
    """A short form of a peer's value, which may have megabytes, or lists nested too deeply to print."""
    return type(value).__name__ if isinstance(value, list | dict) else repr(value)[:SHOWN_LENGTH_MAX]


# ---------------------------------------------------------------- operations


def operation_to_json(operation: Operation) -> list[Any]:
    if isinstance(operation, Multi):
        return [MULTI, [operation_to_json(write) for write in operation.writes]]
    if isinstance(operation, Create):
        value = _text(operation.value)
        return ["create", operation.path, value, operation.ephemeral, operation.sequential]
    if isinstance(operation, SetValue):
        return ["set", operation.path, _text(operation.value), operation.version]
    if isinstance(operation, Delete):
        return ["delete", operation.path, operation.version]
    if isinstance(operation, Check):
        return ["check", operation.path, operation.version]
    return [type(operation).__name__.lower(), operation.path, operation.watch]


def operation_from_json(stored: Any) -> Operation:
    kind, *arguments = stored if isinstance(stored, list) and stored else [None]
    if kind == MULTI:
        if len(arguments) != 1 or not isinstance(arguments[0], list):
            raise KeeperProtocolError("a multi without a list of writes")
        return Multi(tuple(_write_from_json(write) for write in arguments[0]))
    make, kinds = _OPERATIONS.get(kind, (None, ())) if isinstance(kind, str) else (None, ())
    if make is None:
        raise KeeperProtocolError(f"no operation {_shown(kind)}")
    if len(arguments) != len(kinds) or any(
        type(argument) is not kind and not (kind is _Value and isinstance(argument, str | None))
        for argument, kind in zip(arguments, kinds, strict=True)
    ):
        raise KeeperProtocolError(f"{kind} with arguments that do not fit")
    return make(*arguments)


def _write_from_json(stored: Any) -> Write:
    if isinstance(stored, list) and stored[:1] == [
        MULTI
    ]:  # checked first: they could be nested without limit
        raise KeeperProtocolError("a multi inside a multi")
    operation = operation_from_json(stored)
    if isinstance(operation, Write):
        return operation
    raise KeeperProtocolError(f"a {type(operation).__name__.lower()} inside a multi")


class _Value:
    """Marks an argument that is a value: text or null."""


_OPERATIONS: dict[str, tuple[Callable[..., Operation], tuple[type, ...]]] = {
    "create": (lambda path, value, e, s: Create(path, _bytes(value), e, s), (str, _Value, bool, bool)),
    "set": (lambda path, value, version: SetValue(path, _bytes(value), version), (str, _Value, int)),
    "delete": (Delete, (str, int)),
    "check": (Check, (str, int)),
    "get": (Get, (str, bool)),
    "children": (Children, (str, bool)),
    "subtree": (Subtree, (str, bool)),
}


def _text(value: bytes | None) -> str | None:
    return value.decode() if value else None


def _bytes(text: str | None) -> bytes | None:
    try:
        return text.encode() if text else None
    except UnicodeEncodeError:
        raise KeeperProtocolError("a value that is not text") from None


# ---------------------------------------------------------------- results


def result_to_json(operation: Operation, result: Result) -> list[Any]:
    """``[error, value, path]``; the shape of the value depends on the operation."""
    value = result.value
    if not result.ok:
        pass  # None, or the index of the write of a Multi that was refused
    elif isinstance(operation, Get):
        value = node_to_json(value)
    elif isinstance(operation, (Children, Subtree)):
        value = {path: node_to_json(node) for path, node in result.nodes.items()}
    elif isinstance(operation, Multi):
        value = [_stat_to_json(stat) for stat in value]
    else:
        value = _stat_to_json(value)
    return [None if result.error is None else result.error.value, value, result.path]


def result_from_json(operation: Operation, stored: Any) -> Result:
    try:
        error, value, path = stored
        if error is not None:
            return Result(KeeperError(error), value)
        if isinstance(operation, Get):
            value = node_from_json(value)
        elif isinstance(operation, (Children, Subtree)):
            value = {child: node_from_json(node) for child, node in value.items()}
        elif isinstance(operation, Multi):
            value = [_stat_from_json(stat) for stat in value]
        else:
            value = _stat_from_json(value)
        return Result(None, value, path)
    except (TypeError, ValueError, AttributeError):
        raise KeeperProtocolError("a result that does not fit its operation") from None


def node_to_json(node: StoredNode) -> list[Any]:
    return [_text(node.value), node.stat.created, node.stat.version, node.stat.owner]


def node_from_json(stored: Any) -> StoredNode:
    text, created, version, owner = stored
    return StoredNode(_bytes(text), Stat(created, version, owner))


def _stat_to_json(stat: Stat | None) -> list[int] | None:
    return None if stat is None else [stat.created, stat.version, stat.owner]


def _stat_from_json(stored: Any) -> Stat | None:
    return None if stored is None else Stat(*stored)
