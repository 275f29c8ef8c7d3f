"""Writes the function that decodes one message in one version.

Rules of the generated code:

- Neighbouring fields of fixed width, and the length of what follows them, are one `struct` call.
- Objects are made with `object.__new__` and filled by assignment: half the cost of calling `__init__`.
- A length or count is compared with what is left of the frame before anything of that size is made. What
  follows a count must hold at least the smallest possible element that many times.
- A read past the end raises `struct.error` or `IndexError`, bad text `UnicodeDecodeError`; one handler
  around the whole turns them into `ProtocolError`. Slices never fail, so they are checked in the open.
- Schemas do not recurse, so neither does the code: the depth of nesting is that of the declaration.

Large frames from clients are decoded in steps, so that a million elements do not block the event loop. Two
bytes can encode an object of a few hundred bytes in memory. The decoder therefore bounds the memory of all
elements together, and refuses a frame before it creates them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import MISSING
from functools import cache
from typing import Any

from tidelog.wire.codec.source import SourceText
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import TAGS_MAX, Buffer, read_uvarint, skip_tagged_fields
from tidelog.wire.schema import BLOB, TEXT, Array, Field, Fixed, Kind, Struct, Variable, fields_of

Decoder = Callable[[Buffer, int, int], Any]
DecoderInSteps = Callable[[Buffer, int, int], Generator[None, None, Any]]

ELEMENTS_BYTES_MAX = 32 << 20
"""Maximum memory of the elements of one message, estimated: some 90,000 partitions of a Fetch."""
TEXT_BYTES_MAX = 0x7FFF
"""As in Kafka, even where the length field could hold more."""

_NUMBERS_AT_ONCE = 8192
_NUMBERS_PER_ELEMENT = 50
"""How many numbers are decoded in the time that one object takes."""
_NUMBER_BYTES = 40
_OBJECT_BYTES = 64


def compile_decoder(cls: type[Any], version: int, flexible: bool) -> Decoder:
    """`decode(buffer, position, limit)` returns the message between `position` and `limit`."""
    return _Generator(cls, version, flexible).compile()


def compile_decoder_in_steps(cls: type[Any], version: int, flexible: bool) -> DecoderInSteps:
    """`compile_decoder`, but the function is a generator that returns the message."""
    return _Generator(cls, version, flexible, in_steps=True).compile()


def element_bytes(kind: Kind) -> int:
    """Estimated memory of one array element without strings and bytes: a slot, an object, a number for each
    field."""
    if isinstance(kind, Fixed):
        return _NUMBER_BYTES
    return _OBJECT_BYTES + (_NUMBER_BYTES * len(fields_of(kind.type)) if isinstance(kind, Struct) else 0)


def smallest_size(kind: Kind, version: int, flexible: bool) -> int:
    """The fewest bytes a value can take: the bound on how many of them a frame can hold."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, Variable):
        return 1 if flexible else struct.calcsize(kind.length_format)
    if isinstance(kind, Array):
        return 1 if flexible else 4
    present = (field for field in fields_of(kind.type) if field.presence.includes(version))
    untagged = (field for field in present if not (flexible and field.presence.tag_in(version) is not None))
    return sum(smallest_size(field.kind, version, flexible) for field in untagged) + flexible


@cache
def _unpacker(layout: str) -> Callable[..., tuple[Any, ...]]:
    return struct.Struct(layout).unpack_from


class _Generator:
    def __init__(self, cls: type[Any], version: int, flexible: bool, in_steps: bool = False) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.source = SourceText(in_steps)
        self.run: list[tuple[str, str]] = []

    def compile(self) -> Callable[[Buffer, int, int], Any]:
        name = f"{self.cls.__name__} v{self.version}"
        source = self.source
        source.define(
            new=object.__new__,
            unpack_from=struct.unpack_from,
            read_uvarint=read_uvarint,
            skip_tagged_fields=skip_tagged_fields,
            ProtocolError=ProtocolError,
            malformed=(struct.error, IndexError, UnicodeDecodeError),
        )
        with source.block("def decode(buffer, position, limit):"):
            source.begin_steps()
            if source.in_steps:
                source.line(f"room = {ELEMENTS_BYTES_MAX}")
            with source.block("try:"):
                self.structure(self.cls, "message")
                self.flush()
                # Surplus bytes are ignored, as in Kafka: librdkafka's Metadata v9 is one byte too long.
                source.line("return message")
            with source.block("except malformed as error:"):
                source.line(f"raise ProtocolError(f'{name} is malformed: {{error}}') from None")
        return source.compile("decode", f"decoder of {name}")

    # ------------------------------------------------------------ structs

    def structure(self, cls: type[Any], target: str) -> None:
        name = self.source.constant("Class", cls)
        fields = fields_of(cls)
        frozen = cls.__dataclass_params__.frozen
        # A frozen object cannot be filled, so its values wait in variables until it is made.
        places = {field.name: self.source.fresh("value") if frozen else f"{target}.{field.name}"
                  for field in fields}  # fmt: skip
        if not frozen:
            self.source.line(f"{target} = new({name})")
        tagged: list[tuple[int, Field]] = []
        for field in fields:
            place = places[field.name]
            tag = field.presence.tag_in(self.version) if self.flexible else None
            if not field.presence.includes(self.version):
                self.default(field, place)
            elif tag is not None:
                self.default(field, place)
                tagged.append((tag, field))
            else:
                label = f"{cls.__name__}.{field.name}"
                self.value(field.kind, place, field.nullable_in(self.version), label)
        if self.flexible:
            self.tagged_fields(cls, tagged, places)
        if frozen:
            self.flush()
            arguments = ", ".join(f"{field}={place}" for field, place in places.items())
            self.source.line(f"{target} = {name}({arguments})")

    def default(self, field: Field, place: str) -> None:
        if field.default is MISSING:
            raise TypeError(f"{field.name} is not in every version and must have a default")
        if field.default == []:
            self.source.line(f"{place} = []")
        elif isinstance(field.default, int | str | bytes | float | None):
            self.source.line(f"{place} = {field.default!r}")
        else:
            self.source.line(f"{place} = {self.source.constant('default', field.default)}")

    def tagged_fields(self, cls: type[Any], known: list[tuple[int, Field]], places: dict[str, str]) -> None:
        count = self.source.fresh("tags")
        self.run.append(("B", count))
        self.flush()
        if not known:
            with self.source.block(f"if {count}:"):
                self.source.line("position = skip_tagged_fields(buffer, position - 1, limit)")
            return
        with self.source.block(f"if {count}:"):
            self.long_uvarint(count)
            self.refuse(f"{count} > {TAGS_MAX}", f"{cls.__name__} has an impossible number of tagged fields")
            with self.source.block(f"for _ in range({count}):"):
                end = self.source.fresh("end")
                self.source.line("tag, position = read_uvarint(buffer, position)")
                self.source.line(f"{end}, position = read_uvarint(buffer, position)")
                self.source.line(f"{end} += position")
                self.refuse(f"{end} > limit", f"a tagged field of {cls.__name__} reaches beyond the frame")
                for number, (tag, field) in enumerate(known):
                    with self.source.block(f"{'elif' if number else 'if'} tag == {tag}:"):
                        label = f"{cls.__name__}.{field.name}"
                        nullable = field.nullable_in(self.version)
                        self.value(field.kind, places[field.name], nullable, label)
                        self.flush()
                with self.source.block("else:"):
                    self.source.line(f"position = {end}")
                self.refuse(f"position != {end}", f"a tagged field of {cls.__name__} has the wrong size")

    # ------------------------------------------------------------ values

    def value(self, kind: Kind, target: str, nullable: bool, label: str) -> None:
        if isinstance(kind, Fixed):
            self.run.append((kind.format, target))
        elif isinstance(kind, Variable):
            self.variable(kind, target, nullable, label)
        elif isinstance(kind, Array):
            self.array(kind.element, target, nullable, label)
        elif nullable:
            self.nullable_structure(kind.type, target)
        elif target.isidentifier():
            self.structure(kind.type, target)
        else:
            inner = self.source.fresh("inner")
            self.structure(kind.type, inner)
            self.source.line(f"{target} = {inner}")

    def nullable_structure(self, cls: type[Any], target: str) -> None:
        """A byte in front of the struct: negative for null."""
        present, inner = self.source.fresh("present"), self.source.fresh("inner")
        self.run.append(("b", present))
        self.flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.structure(cls, inner)
            self.flush()
            self.source.line(f"{target} = {inner}")

    def variable(self, kind: Variable, target: str, nullable: bool, label: str) -> None:
        length = self.length(kind.length_format)
        if nullable:
            with self.source.block(f"if {length} < 0:"):
                self.source.line(f"{target} = None")
            with self.source.block("else:"):
                self.slice(kind, target, length, label)
        else:
            self.slice(kind, target, length, label)

    def slice(self, kind: Variable, target: str, length: str, label: str) -> None:
        self.source.line(f"end = position + {length}")
        too_long = f" or {length} > {TEXT_BYTES_MAX}" if self.flexible and kind is TEXT else ""
        self.refuse(f"not position <= end <= limit{too_long}", f"{label} has an impossible length")
        data = "buffer[position:end]"
        converted = {TEXT: f"str({data}, 'utf-8')", BLOB: f"{data}.tobytes()"}.get(kind, data)
        self.source.line(f"{target} = {converted}")
        self.source.line("position = end")

    def array(self, element: Kind, target: str, nullable: bool, label: str) -> None:
        count = self.length("i")
        if nullable:
            with self.source.block(f"if {count} < 0:"):
                self.source.line(f"{target} = None")
            with self.source.block("else:"):
                self.elements(element, target, count, label)
        else:
            self.elements(element, target, count, label)

    def elements(self, element: Kind, target: str, count: str, label: str) -> None:
        smallest = smallest_size(element, self.version, self.flexible)
        self.refuse(f"not 0 <= {count} * {smallest} <= limit - position", f"{label} has an impossible count")
        if self.source.in_steps:
            self.source.line(f"room -= {count} * {element_bytes(element)}")
            self.refuse("room < 0", f"{label} takes more memory than a request is given")
        if isinstance(element, Fixed) and len(element.format) == 1:
            self.numbers(element, target, count)
            return
        items, item = self.source.fresh("items"), self.source.fresh("item")
        self.source.line(f"{items} = {target} = []")
        with self.source.block(f"for _ in range({count}):"):
            self.value(element, item, False, label)
            self.flush()
            self.source.line(f"{items}.append({item})")
            self.source.step()

    def numbers(self, element: Fixed, target: str, count: str) -> None:
        # One struct call for the whole array. Formats are cached by `struct`, short arrays recur.
        unpacked = f"unpack_from('>%d{element.format}' % {count}, buffer, position)"
        if not self.source.in_steps:
            self.source.line(f"{target} = list({unpacked})")
            self.source.line(f"position += {count} * {element.size}")
            return
        numbers, left = self.source.fresh("numbers"), self.source.fresh("left")
        self.source.line(f"{numbers} = {target} = []")
        self.source.line(f"{left} = {count}")
        with self.source.block(f"while {left}:"):
            self.source.line(f"{count} = min({left}, {_NUMBERS_AT_ONCE})")
            self.source.line(f"{numbers} += {unpacked}")
            self.source.line(f"position += {count} * {element.size}")
            self.source.line(f"{left} -= {count}")
            self.source.step(f"{count} // {_NUMBERS_PER_ELEMENT} + 1")

    def length(self, format: str) -> str:
        """Reads a length or count, negative for null, together with the pending fields before it."""
        length = self.source.fresh("length")
        self.run.append(("B" if self.flexible else format, length))
        self.flush()
        if self.flexible:
            self.long_uvarint(length)
            self.source.line(f"{length} -= 1")
        return length

    def long_uvarint(self, target: str) -> None:
        """The first byte was read as part of a run; nearly always it is the whole number."""
        with self.source.block(f"if {target} > 127:"):
            self.source.line(f"{target}, position = read_uvarint(buffer, position - 1)")

    def refuse(self, condition: str, why: str) -> None:
        self.source.line(f"if {condition}: raise ProtocolError({why!r})")

    def flush(self) -> None:
        """Reads the pending fields of fixed width in one go."""
        if not self.run:
            return
        targets = ", ".join(target for _, target in self.run)
        layout = ">" + "".join(format for format, _ in self.run)
        if layout == ">B":
            self.source.line(f"{targets} = buffer[position]")
        else:
            unpack = self.source.constant("unpack", _unpacker(layout))
            comma = "," if len(self.run) == 1 else ""
            self.source.line(f"{targets}{comma} = {unpack}(buffer, position)")
        self.source.line(f"position += {struct.calcsize(layout)}")
        self.run.clear()
