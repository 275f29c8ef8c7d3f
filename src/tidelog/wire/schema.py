"""The language in which messages are declared: one slotted class for all versions of a message.

A message is a class under `@struct`. Its fields are declared in wire order, their types are the `Annotated`
ones below, another struct, a `list` of either, or one of them `| None`:

    @struct
    class PartitionProduceResponse:
        index: Int32
        error_code: Int16 = 0
        log_start_offset: Int64 = field(-1, since=5)
        error_message: String | None = field(None, since=8)

- `field` says in which versions a field travels; a field not so declared travels in all. Where a version
  lacks a field, decoding gives the default and encoding drops the value.
- Kafka gives every field a default. Here a field without a default must be passed, so that it cannot be
  forgotten.
- `| None` allows null in every version that has the field, unless `nullable_since` says later.
- A struct that is the default of a field is declared `@frozen_struct`, because all messages share it.
- Instances are built with keywords only: two fields of one type are too easily swapped.

This module knows no bytes; `codec.decoding` and `codec.encoding` turn a declaration into code.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")

# ---------------------------------------------------------------- kinds of values


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width: its `struct` format and its size in bytes."""

    format: str
    size: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A length and that many bytes; `length_format` is the format of the length in versions that are not
    flexible."""

    name: str
    length_format: str


@dataclass(frozen=True, slots=True)
class Array:
    element: Kind


@dataclass(frozen=True, slots=True)
class Struct:
    type: type[Any]


Kind = Fixed | Variable | Array | Struct

TEXT: Final = Variable("text", "h")
BLOB: Final = Variable("blob", "i")
RECORDS: Final = Variable("records", "i")

Bool = Annotated[bool, Fixed("?", 1)]
Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
UInt16 = Annotated[int, Fixed("H", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Float64 = Annotated[float, Fixed("d", 8)]
Uuid = Annotated[bytes, Fixed("16s", 16)]
String = Annotated[str, TEXT]
Bytes = Annotated[bytes, BLOB]
# Decoded: a memoryview into the frame. To encode: a buffer, or a list of buffers that are sent as one.
Records = Annotated[Any, RECORDS]

NO_UUID: Final = bytes(16)

# ---------------------------------------------------------------- declaring


@dataclass(frozen=True, slots=True)
class Presence:
    """The versions in which a field travels, and how. A `tag` makes it optional from `tag_since` on."""

    since: int = 0
    until: int | None = None
    nullable_since: int | None = None
    tag: int | None = None
    tag_since: int = 0

    def includes(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def tag_in(self, version: int) -> int | None:
        return self.tag if version >= self.tag_since else None


_ALWAYS: Final = Presence()
_KEY: Final = "wire"


def field(
    default: Any = dataclasses.MISSING,
    *,
    since: int = 0,
    until: int | None = None,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int | None = None,
) -> Any:
    """A field that some versions lack or encode differently. `until` is the last version that has it."""
    presence = Presence(since, until, nullable_since, tag, since if tag_since is None else tag_since)
    metadata = {_KEY: presence}
    if default == []:
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """A broker defines two hundred of them before it can start. What a dataclass would write and compile for
    each of them they have in common: comparison, `repr`, and a docstring that names the arguments."""
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls.__eq__, cls.__repr__, cls.__hash__ = _equal, _shown, None  # type: ignore[method-assign,assignment]
    return dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def frozen_struct(cls: type[T]) -> type[T]:
    """The same, to be used as keys: compared and hashed often, by code of their own."""
    return dataclass(slots=True, kw_only=True, frozen=True)(cls)


def _equal(self: Any, other: Any) -> Any:
    if self.__class__ is not other.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)


def _shown(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({fields})"


# ---------------------------------------------------------------- reading a declaration


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    presence: Presence
    nullable_since: int | None
    default: Any

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


_fields: dict[type[Any], tuple[Field, ...]] = {}


def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """The fields of a struct in wire order."""
    if cls not in _fields:
        hints = get_type_hints(cls, include_extras=True)
        _fields[cls] = tuple(_read(declared, hints) for declared in dataclasses.fields(cls))
    return _fields[cls]


def _read(declared: dataclasses.Field[Any], hints: Mapping[str, Any]) -> Field:
    presence = declared.metadata.get(_KEY, _ALWAYS)
    kind, optional = _kind_of(hints[declared.name])
    nullable_since = None
    if optional:
        nullable_since = presence.since if presence.nullable_since is None else presence.nullable_since
    default = declared.default
    if declared.default_factory is not dataclasses.MISSING:
        default = declared.default_factory()
    return Field(declared.name, kind, presence, nullable_since, default)


def _kind_of(hint: Any) -> tuple[Kind, bool]:
    """The kind of value of a type annotation, and whether it may be null."""
    origin = get_origin(hint)
    if origin is Annotated:
        return get_args(hint)[1], False
    if origin in (Union, types.UnionType):
        inner = [argument for argument in get_args(hint) if argument is not type(None)]
        if len(inner) != 1:
            raise TypeError(f"{hint} is not one type or null")
        return _kind_of(inner[0])[0], True
    if origin is list:
        return Array(_kind_of(get_args(hint)[0])[0]), False
    if dataclasses.is_dataclass(hint):
        return Struct(hint), False  # type: ignore[arg-type]
    raise TypeError(f"{hint} is not a type of the wire")
