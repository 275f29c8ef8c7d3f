"""The language of declarations: versions, nulls, tags, defaults, and the mistakes it catches."""

from __future__ import annotations

import struct as structs

import pytest

from tidelog.wire.codec import decode, encode
from tidelog.wire.codec.decoding import compile_decoder, smallest_size
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import encode_uvarint, encode_varlong, read_uvarint, read_varlong
from tidelog.wire.schema import (
    NO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    UInt16,
    Uuid,
    field,
    fields_of,
    frozen_struct,
    struct,
)


@frozen_struct
class Place:
    row: Int32 = -1
    column: Int16 = -1


@struct
class Item:
    name: String
    weight: Int64 = field(-1, since=1)


@struct
class Everything:
    flag: Bool
    small: Int8
    unsigned: UInt16
    ratio: Float64
    identity: Uuid = field(NO_UUID, since=1)
    nested: Item
    items: list[Item] | None = field(nullable_since=1)
    blobs: list[Bytes]
    identities: list[Uuid]
    gone: Int32 = field(7, until=1)
    place: Place = field(Place(), since=2, tag=5)
    note: String | None = field(None, since=2, tag=3)
    numbers: list[Int64] = field([], since=2, tag=200)
    size: Int32 = field(3, since=1, tag=0, tag_since=2)


EVERYTHING = Everything(
    flag=True,
    small=-8,
    unsigned=65535,
    ratio=0.5,
    identity=bytes(range(16)),
    nested=Item(name="n", weight=1),
    items=[Item(name="ä", weight=2)],
    blobs=[b"", b"xy"],
    identities=[bytes(16), b"0123456789abcdef"],
    gone=9,
    place=Place(row=1, column=2),
    note="hi",
    numbers=[1, -1],
    size=4,
)


def test_version_0_is_the_barest() -> None:
    """Fields that came later are dropped on the way out and have their defaults on the way in."""
    data = encode(EVERYTHING, 0, flexible=False)
    assert (
        data.hex(" ")
        == (
            "01 f8 ff ff 3f e0 00 00 00 00 00 00"  # flag, small, unsigned, ratio
            " 00 01 6e"  # nested
            " 00 00 00 01 00 02 c3 a4"  # items
            " 00 00 00 02 00 00 00 00 00 00 00 02 78 79"  # blobs
            " 00 00 00 02" + " 00" * 16 + " 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66"  # identities
            " 00 00 00 09"  # gone
        )
    )
    back = decode(Everything, 0, False, data)
    assert back.identity == NO_UUID
    assert back.nested == Item(name="n")
    assert (back.place, back.note, back.numbers, back.size) == (Place(), None, [], 3)


def test_a_tag_replaces_a_place() -> None:
    """`size` has a place of its own in version 1 and a tag from version 2 on."""
    assert encode(EVERYTHING, 1, flexible=False).endswith(b"\x00\x00\x00\x09\x00\x00\x00\x04")
    data = encode(EVERYTHING, 2, flexible=True)
    tags = (
        b"\x04"  # four tagged fields, by ascending tag
        b"\x00\x04\x00\x00\x00\x04"
        b"\x03\x03\x03hi"
        b"\x05\x07\x00\x00\x00\x01\x00\x02\x00"
        b"\xc8\x01\x11\x03\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff"
    )
    assert data.endswith(tags)
    back = decode(Everything, 2, True, data)
    assert back.gone == 7
    back.gone = 9
    assert back == EVERYTHING


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    """So a peer that does not know the tag never sees it."""
    bare = Everything(
        flag=False, small=0, unsigned=0, ratio=0.0, nested=Item(name=""), items=None, blobs=[], identities=[]
    )
    bare.place = Place(row=-1, column=-1)
    assert encode(bare, 2, flexible=True).endswith(b"\x00\x01\x01\x00")


def test_null_where_it_is_not_allowed_is_refused() -> None:
    """`items` may be null from version 1 on; null in version 0 is a broken message."""
    message = Everything(
        flag=False, small=0, unsigned=0, ratio=0.0, nested=Item(name=""), items=[], blobs=[], identities=[]
    )
    data = encode(message, 0, flexible=False)
    assert data[14:18] == bytes(4)
    with pytest.raises(ProtocolError, match=r"Everything\.items has an impossible count"):
        decode(Everything, 0, False, data[:14] + b"\xff\xff\xff\xff" + data[18:])


def test_unknown_tags_are_skipped_and_repeated_ones_replace() -> None:
    """Unknown tags do no harm, at any position."""

    @struct
    class Tagged:
        known: Int8 = field(-1, tag=1)

    def read(data: str) -> int:
        known: int = decode(Tagged, 0, True, bytes.fromhex(data)).known
        return known

    assert read("00") == -1
    assert read("01 01 01 07") == 7
    assert read("03 00 02 ffff 01 01 07 85 20 00") == 7
    assert read("02 01 01 07 01 01 08") == 8
    for broken in ("01", "01 01", "01 01 02 0700", "01 01 01", "01 02 7f 00", "ff ff ff ff ff 01"):
        with pytest.raises(ProtocolError):
            read(broken)


def test_a_field_that_is_not_in_every_version_needs_a_default() -> None:
    """A declaration without one is refused as soon as a version lacks the field."""

    @struct
    class Bad:
        late: Int32 = field(since=3)

    compile_decoder(Bad, 3, False)
    with pytest.raises(TypeError, match="late"):
        compile_decoder(Bad, 2, False)


def test_types_that_are_not_of_the_wire_are_refused() -> None:
    """A plain `int` does not say how wide it is."""

    @struct
    class Plain:
        number: int

    @struct
    class Either:
        one: String | Int32

    with pytest.raises(TypeError, match="not a type of the wire"):
        fields_of(Plain)
    with pytest.raises(TypeError, match="not one type or null"):
        fields_of(Either)


def test_messages_are_built_with_keywords_only() -> None:
    """Two fields of one type are too easily swapped."""
    with pytest.raises(TypeError):
        Item("name", 3)  # type: ignore[call-arg]


def test_the_smallest_size_bounds_a_count() -> None:
    """An element takes at least its fixed fields and the lengths of the others."""
    assert smallest_size(Struct(Item), 0, flexible=False) == 2
    assert smallest_size(Struct(Item), 1, flexible=False) == 10
    assert smallest_size(Struct(Item), 1, flexible=True) == 10
    assert smallest_size(Struct(Place), 0, flexible=True) == 7


def test_values_that_do_not_fit_are_the_callers_mistake() -> None:
    """A number too large for its field raises where it is encoded, and never wraps around."""
    with pytest.raises(structs.error):
        encode(Item(name="", weight=1 << 63), 1, flexible=False)
    with pytest.raises(structs.error):
        encode(Item(name="x" * 40_000), 0, flexible=False)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2097151, "ffff7f"),
        (2097152, "80808001"),
        (268435456, "8080808001"),
        (0xFFFFFFFF, "ffffffff0f"),
    ],
)
def test_unsigned_varints(value: int, data: str) -> None:
    """Seven bits a byte, the least significant first."""
    assert encode_uvarint(value).hex() == data
    assert read_uvarint(bytes.fromhex(data), 0) == (value, len(data) // 2)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_signed_varints(value: int, data: str) -> None:
    """Zigzag: the small ones of either sign are short."""
    assert encode_varlong(value).hex() == data
    assert read_varlong(bytes.fromhex(data), 0) == (value, len(data) // 2)


def test_varints_without_an_end_are_refused() -> None:
    """A number may not go on for ever, nor exceed its width."""
    for endless in (b"\x80" * 5 + b"\x00", b"\xff" * 20, b"\xff" * 4 + b"\x10"):
        with pytest.raises(ProtocolError, match="32 bits"):
            read_uvarint(endless, 0)
    with pytest.raises(ProtocolError, match="ten bytes"):
        read_varlong(b"\xff" * 11, 0)
    with pytest.raises(ProtocolError, match="64 bits"):
        read_varlong(b"\xff" * 9 + b"\x02", 0)
