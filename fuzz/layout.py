"""A request as bytes, and which bytes are which.

`draw` encodes a request by its declaration, like `wire.codec` and to the same bytes, and notes where every
number, length, count, content and array element stands. Mutations then change one of these and leave the rest
well-formed, so that a hostile value reaches the code behind the decoder.
"""

from __future__ import annotations

from enum import Enum
from struct import pack
from typing import Any, NamedTuple

from tidelog.wire.api import Api
from tidelog.wire.api_keys import ApiSchema
from tidelog.wire.primitives import encode_uvarint
from tidelog.wire.schema import TEXT, Array, Field, Fixed, Kind, Struct, Variable, fields_of

CORRELATION_AT = 4
"""Where a frame, without its length, has its correlation id."""


class Role(Enum):
    NUMBER = "number"
    LENGTH = "length"
    """Of the content that follows it."""
    CONTENT = "content"
    COUNT = "count"
    ELEMENT = "element"
    TAGS = "tags"
    """The number of tagged fields of a structure."""


class Part(NamedTuple):
    role: Role
    start: int
    end: int
    width: int = 0
    """Of a number, length or count: its bytes; 0 for a varint."""
    owner: int = -1
    """Of a content, the place in the list of its length; of an element, that of its count."""
    items: int = 0
    """Of a count: how many elements follow. -1 for null."""


class Drawn(NamedTuple):
    frame: bytes
    """Without its length."""
    parts: list[Part]


def draw(known: ApiSchema, version: int, client_id: str | None, body: Any) -> Drawn:
    """A whole request with correlation id 0."""
    return _Pen(version, known.flexible(version)).request(known, client_id, body)


class _Pen:
    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._out = bytearray()
        self._parts: list[Part] = []

    def request(self, known: ApiSchema, client_id: str | None, body: Any) -> Drawn:
        self._out += pack(">hhi", known.api, self._version, 0)
        self._parts += [Part(Role.NUMBER, 0, 2, 2), Part(Role.NUMBER, 2, 4, 2)]
        if not (known.api == Api.CONTROLLED_SHUTDOWN and self._version == 0):
            self._client_id(client_id)
        if self._flexible:
            self._tags([], body)
        self._struct(known.request, body)
        return Drawn(bytes(self._out), self._parts)

    def _client_id(self, client_id: str | None) -> None:
        """A legacy string in every version of the header."""
        flexible, self._flexible = self._flexible, False
        self._variable(TEXT, client_id)
        self._flexible = flexible

    def _struct(self, cls: type[Any], value: Any) -> None:
        tagged: list[tuple[int, Field]] = []
        for field in fields_of(cls):
            if not field.presence.includes(self._version):
                continue
            tag = field.presence.tag_in(self._version) if self._flexible else None
            if tag is None:
                self._field(field, getattr(value, field.name))
            elif getattr(value, field.name) != field.default:
                tagged.append((tag, field))
        if self._flexible:
            self._tags(sorted(tagged, key=lambda pair: pair[0]), value)

    def _tags(self, tagged: list[tuple[int, Field]], value: Any) -> None:
        start = len(self._out)
        self._out += encode_uvarint(len(tagged))
        self._parts.append(Part(Role.TAGS, start, len(self._out), items=len(tagged)))
        for tag, field in tagged:
            inner = _Pen(self._version, self._flexible)
            inner._field(field, getattr(value, field.name))
            self._out += encode_uvarint(tag)
            start = len(self._out)
            self._out += encode_uvarint(len(inner._out))
            self._parts.append(Part(Role.LENGTH, start, len(self._out)))
            self._out += inner._out

    def _field(self, field: Field, value: Any) -> None:
        if isinstance(field.kind, Struct) and field.nullable_in(self._version):
            start = len(self._out)
            self._out += pack(">b", -1 if value is None else 1)
            self._parts.append(Part(Role.NUMBER, start, start + 1, 1))
            if value is None:
                return
        self._value(field.kind, value)

    def _value(self, kind: Kind, value: Any) -> None:
        if isinstance(kind, Fixed):
            start = len(self._out)
            self._out += pack(f">{kind.format}", value)
            self._parts.append(Part(Role.NUMBER, start, start + kind.size, kind.size))
        elif isinstance(kind, Array):
            self._array(kind.element, value)
        elif isinstance(kind, Struct):
            self._struct(kind.type, value)
        else:
            self._variable(kind, value)

    def _array(self, element: Kind, items: list[Any] | None) -> None:
        owner = len(self._parts)
        count = -1 if items is None else len(items)
        start = len(self._out)
        width = self._size("i", count)
        self._parts.append(Part(Role.COUNT, start, len(self._out), width, items=count))
        for item in items or ():
            place, start = len(self._parts), len(self._out)
            self._parts.append(Part(Role.ELEMENT, start, start, owner=owner))  # its end is not known yet
            self._value(element, item)
            self._parts[place] = Part(Role.ELEMENT, start, len(self._out), owner=owner)

    def _variable(self, kind: Variable, value: Any) -> None:
        data = None if value is None else value.encode() if kind == TEXT else value
        owner, start = len(self._parts), len(self._out)
        width = self._size(kind.length_format, -1 if data is None else len(data))
        self._parts.append(Part(Role.LENGTH, start, len(self._out), width))
        if data is not None:
            start = len(self._out)
            self._out += data
            self._parts.append(Part(Role.CONTENT, start, len(self._out), owner=owner))

    def _size(self, format: str, size: int) -> int:
        """A length or a count, -1 for null; returns its width."""
        if self._flexible:
            self._out += encode_uvarint(size + 1)
            return 0
        self._out += pack(f">{format}", size)
        return 2 if format == "h" else 4
