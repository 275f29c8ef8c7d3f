"""Writes the function that encodes one message in one version.

Rules of the generated code:

- It appends to a `bytearray` that already holds the frame's length (to be filled in) and header.
- Neighbouring fields of fixed width, the length of what follows them and the byte that says "no tagged
  fields" are one `struct` call.
- A record set is not copied: the bytes so far, the caller's buffers and a new `bytearray` for what follows
  become neighbours in the list that is returned. Below `COPY_MAX` a copy is cheaper than one more buffer
  in a vectored write, so small ones are copied after all.
- A tagged field that holds its default is not written.
- Values are the caller's own: one of the wrong type or range is a programming error and raises what Python
  raises.

Responses are encoded in steps: a response with thousands of partitions must not block other connections. A
short response is complete after the first step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from tidelog.wire.codec.source import SourceText
from tidelog.wire.primitives import Buffer, encode_uvarint
from tidelog.wire.schema import RECORDS, TEXT, Array, Field, Fixed, Kind, Struct, Variable, fields_of

Encoder = Callable[[Any, bytearray], list[Buffer]]
EncoderInSteps = Callable[[Any, bytearray], Generator[None, None, list[Buffer]]]

COPY_MAX = 1024


def compile_encoder(cls: type[Any], version: int, flexible: bool) -> Encoder:
    """`encode(message, out)` returns the buffers to send in order; the first is `out`."""
    return _Generator(cls, version, flexible).compile()


def compile_encoder_in_steps(cls: type[Any], version: int, flexible: bool) -> EncoderInSteps:
    """`compile_encoder`, but the function is a generator that returns the buffers."""
    return _Generator(cls, version, flexible, in_steps=True).compile()


@cache
def _packer(layout: str) -> Callable[..., bytes]:
    return struct.Struct(layout).pack


class _Generator:
    def __init__(self, cls: type[Any], version: int, flexible: bool, in_steps: bool = False) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.source = SourceText(in_steps)
        self.run: list[tuple[str, str]] = []

    def compile(self) -> Callable[[Any, bytearray], Any]:
        source = self.source
        source.define(pack=struct.pack, encode_uvarint=encode_uvarint)
        with source.block("def encode(message, out):"):
            source.line("buffers = []")
            source.begin_steps()
            self.structure(self.cls, "message")
            self.flush()
            source.line("if out: buffers.append(out)")
            source.line("return buffers")
        return source.compile("encode", f"encoder of {self.cls.__name__} v{self.version}")

    # ------------------------------------------------------------ structs

    def structure(self, cls: type[Any], origin: str) -> None:
        tagged: list[tuple[int, Field]] = []
        for field in fields_of(cls):
            if not field.presence.includes(self.version):
                continue
            tag = field.presence.tag_in(self.version) if self.flexible else None
            if tag is not None:
                tagged.append((tag, field))
            else:
                self.value(field.kind, f"{origin}.{field.name}", field.nullable_in(self.version))
        if self.flexible:
            self.tagged_fields(sorted(tagged, key=lambda pair: pair[0]), origin)

    def tagged_fields(self, known: list[tuple[int, Field]], origin: str) -> None:
        if not known:
            self.run.append(("x", ""))
            return
        values = {field.name: self.source.fresh("tagged") for _, field in known}
        present = {}
        for _, field in known:
            self.source.line(f"{values[field.name]} = {origin}.{field.name}")
            present[field.name] = self.present(field, values[field.name])
        self.flush()
        with self.source.block(f"if {' or '.join(present.values())}:"):
            outer, section, count = (self.source.fresh(name) for name in ("outer", "section", "count"))
            self.source.line(f"{outer}, {section}, {count} = out, bytearray(), 0")
            for tag, field in known:
                with self.source.block(f"if {present[field.name]}:"):
                    self.source.line(f"{count} += 1")
                    self.source.line("out = bytearray()")
                    self.value(field.kind, values[field.name], field.nullable_in(self.version))
                    self.flush()
                    number = self.source.constant("tag", encode_uvarint(tag))
                    self.source.line(f"{section} += {number} + encode_uvarint(len(out)) + out")
            self.source.line(f"out = {outer}")
            self.source.line(f"out += encode_uvarint({count})")
            self.source.line(f"out += {section}")
        with self.source.block("else:"):
            self.source.line("out.append(0)")

    def present(self, field: Field, value: str) -> str:
        """The condition under which a tagged field is written."""
        default = field.default
        if default is None:
            return f"{value} is not None"
        if default == []:
            return value
        if isinstance(field.kind, Struct):
            # A default value is nearly always the shared object itself, so that fields are rarely compared.
            name = self.source.constant("default", default)
            return f"({value} is not {name} and {value} != {name})"
        return f"{value} != {default!r}"

    # ------------------------------------------------------------ values

    def value(self, kind: Kind, value: str, nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self.run.append((kind.format, value))
        elif isinstance(kind, Array):
            self.array(kind.element, value, nullable)
        elif isinstance(kind, Struct) and nullable:
            self.nullable_structure(kind.type, self.local(value))
        elif isinstance(kind, Struct):
            self.structure(kind.type, self.local(value))
        elif kind is RECORDS:
            self.records(value, nullable)
        else:
            self.variable(kind, value, nullable)

    def nullable_structure(self, cls: type[Any], value: str) -> None:
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line("out.append(255)")
        with self.source.block("else:"):
            self.source.line("out.append(1)")
            self.structure(cls, value)
            self.flush()

    def variable(self, kind: Variable, value: str, nullable: bool) -> None:
        data = self.source.fresh("data")
        conversion = ".encode()" if kind == TEXT else ""
        if nullable:
            length = self.source.fresh("length")
            self.source.line(f"{data} = {value}")
            with self.source.block(f"if {data} is None:"):
                self.source.line(f"{length}, {data} = -1, b''")
            with self.source.block("else:"):
                if conversion:
                    self.source.line(f"{data} = {data}{conversion}")
                self.source.line(f"{length} = len({data})")
            self.length(kind.length_format, length)
        else:
            self.source.line(f"{data} = {value}{conversion}")
            self.length(kind.length_format, f"len({data})")
        self.source.line(f"out += {data}")

    def records(self, value: str, nullable: bool) -> None:
        data, length = self.source.fresh("data"), self.source.fresh("length")
        self.source.line(f"{data} = {value}")
        if nullable:
            with self.source.block(f"if {data} is None:"):
                self.source.line(f"{length}, {data} = -1, ()")
        with self.source.block(f"{'elif' if nullable else 'if'} isinstance({data}, (list, tuple)):"):
            self.source.line(f"{length} = sum(map(len, {data}))")
        with self.source.block("else:"):
            self.source.line(f"{length}, {data} = len({data}), ({data},)")
        self.length("i", length)
        with self.source.block(f"if {length} > {COPY_MAX}:"):
            self.source.line("buffers.append(out)")
            self.source.line(f"buffers += {data}")
            self.source.line("out = bytearray()")
        with self.source.block("else:"):
            self.source.line(f"for part in {data}: out += part")

    def array(self, element: Kind, value: str, nullable: bool) -> None:
        items = self.local(value)
        if nullable:
            count = self.source.fresh("count")
            with self.source.block(f"if {items} is None:"):
                self.source.line(f"{count}, {items} = -1, ()")
            with self.source.block("else:"):
                self.source.line(f"{count} = len({items})")
            self.length("i", count)
        else:
            self.length("i", f"len({items})")
        if isinstance(element, Fixed) and len(element.format) == 1:
            self.source.line(f"if {items}: out += pack('>%d{element.format}' % len({items}), *{items})")
            return
        item = self.source.fresh("item")
        with self.source.block(f"for {item} in {items}:"):
            self.value(element, item, False)
            self.flush()
            self.source.step()

    def local(self, value: str) -> str:
        """A variable that holds the value, so that it is looked up once."""
        if value.isidentifier():
            return value
        name = self.source.fresh("local")
        self.source.line(f"{name} = {value}")
        return name

    def length(self, format: str, length: str) -> None:
        """Writes the pending fields and a length (-1 for null), in one go unless the length is a long one."""
        if not self.flexible:
            self.run.append((format, length))
            self.flush()
            return
        size = self.source.fresh("size")
        self.source.line(f"{size} = {length} + 1")
        before = list(self.run)
        with self.source.block(f"if {size} < 128:"):
            self.run.append(("B", size))
            self.flush()
        with self.source.block("else:"):
            self.run = before
            self.flush()
            self.source.line(f"out += encode_uvarint({size})")

    def flush(self) -> None:
        """Writes the pending fields of fixed width in one go."""
        if not self.run:
            return
        values = ", ".join(value for format, value in self.run if format != "x")
        layout = ">" + "".join(format for format, _ in self.run)
        if layout == ">B":
            self.source.line(f"out.append({values})")
        elif layout == ">x":
            self.source.line("out.append(0)")
        else:
            pack = self.source.constant("pack", _packer(layout))
            self.source.line(f"out += {pack}({values})")
        self.run.clear()
