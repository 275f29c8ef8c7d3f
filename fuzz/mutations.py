"""Changes to a request: of one of its parts, which leaves the rest well-formed, or of arbitrary bytes.

A structural change is a list of edits (from, to, instead) of the bytes that `layout` has drawn. Lengths and
counts are made to fit what was changed, unless the change is that they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from fuzz.batches import extreme
from fuzz.layout import Drawn, Part, Role
from tidelog.wire.primitives import encode_uvarint

Edit = tuple[int, int, bytes]

_LIES: Final = (2**31 - 1, 2**31 - 2, 2**16, 1_000_000, 300, 127, 1, 0, -2)
_CONTENTS: Final = (
    *(b"", b"\x00", b"fuzz-plain", b"fuzz-compacted", b"fuzz-new-4", b"fuzz-group-1", b"\xc3\x28"),
    *(b"x" * 249, b"x" * 32_767, b"x" * 40_000),
)
_COPIES: Final = (1, 1, 2, 10, 300)
FRAME_BYTES_MAX: Final = 1 << 20
_SIZES: Final = (Role.LENGTH, Role.COUNT, Role.TAGS)
_SIZES_SHARE: Final = 0.05


def changed_fields(dice: Random, drawn: Drawn) -> bytes:
    """One to three parts are something else."""
    edits: list[Edit] = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        part = _chosen(dice, drawn.parts)
        edits += _CHANGES[part.role](dice, drawn, part)
    return _applied(drawn.frame, edits)


def _chosen(dice: Random, parts: list[Part]) -> Part:
    """A part to change. Seldom a size: a lie about it is found by the decoder, and nothing behind it is
    reached. Never the key and the version, which come first and have a mutation of their own."""
    part = parts[-1]
    for _ in range(6):
        part = parts[dice.randrange(min(2, len(parts) - 1), len(parts))]
        if part.role not in _SIZES or dice.random() < _SIZES_SHARE:
            break
    return part


def _applied(frame: bytes, edits: list[Edit]) -> bytes:
    """From the last to the first; of two that overlap the first is left out."""
    out, untouched = bytearray(frame), len(frame)
    for start, end, instead in sorted(edits, reverse=True):
        if end <= untouched:
            out[start:end] = instead
            untouched = start
    return bytes(out[:FRAME_BYTES_MAX])


def _size(part: Part, size: int) -> bytes:
    """A length or count in the form that this one has; -1 is null."""
    if part.width:
        limit = (1 << (8 * part.width - 1)) - 1
        return max(min(size, limit), -limit - 1).to_bytes(part.width, "big", signed=True)
    return encode_uvarint(max(size + 1, 0))


# ---------------------------------------------------------------- of one part


def _number(dice: Random, drawn: Drawn, part: Part) -> list[Edit]:
    return [(part.start, part.end, extreme(dice, part.width))]


def _size_lies(dice: Random, drawn: Drawn, part: Part) -> list[Edit]:
    return [(part.start, part.end, _size(part, dice.choice(_LIES)))]


def _content(dice: Random, drawn: Drawn, part: Part) -> list[Edit]:
    """Something else of the right length; or null, where perhaps nothing may be."""
    length = drawn.parts[part.owner]
    if dice.random() < 0.1:
        return [(length.start, length.end, _size(length, -1)), (part.start, part.end, b"")]
    other = dice.choice(_CONTENTS)
    return [(length.start, length.end, _size(length, len(other))), (part.start, part.end, other)]


def _element(dice: Random, drawn: Drawn, part: Part) -> list[Edit]:
    """It is there more than once, or not at all."""
    count = drawn.parts[part.owner]
    if dice.random() < 0.3:
        return [(count.start, count.end, _size(count, count.items - 1)), (part.start, part.end, b"")]
    element = drawn.frame[part.start : part.end]
    copies = min(dice.choice(_COPIES), FRAME_BYTES_MAX // max(len(element), 1))
    more = _size(count, count.items + copies)
    return [(count.start, count.end, more), (part.end, part.end, element * copies)]


def _tags(dice: Random, drawn: Drawn, part: Part) -> list[Edit]:
    """A field that no version knows, or more of them than there are."""
    if dice.random() < 0.5:
        return [(part.start, part.end, encode_uvarint(dice.choice((1, 127, 2**31 - 1))))]
    data = dice.randbytes(dice.choice((0, 1, 200)))
    unknown = encode_uvarint(dice.choice((0, 1, 99, 2**31))) + encode_uvarint(len(data)) + data
    # In front of those that are there: tags should be in order, and perhaps nobody checks.
    return [(part.start, part.end, encode_uvarint(part.items + 1) + unknown)]


_CHANGES: Final[dict[Role, Callable[[Random, Drawn, Part], list[Edit]]]] = {
    Role.NUMBER: _number,
    Role.LENGTH: _size_lies,
    Role.COUNT: _size_lies,
    Role.CONTENT: _content,
    Role.ELEMENT: _element,
    Role.TAGS: _tags,
}

# ---------------------------------------------------------------- of arbitrary bytes


def changed_bytes(dice: Random, frame: bytes, other: bytes) -> bytes:
    """A few bits, bytes or stretches are something else; `other` is a frame to cut pieces from."""
    out = bytearray(frame)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << dice.randrange(8)
            case 1:
                out[at : at + 1] = dice.randbytes(1)
            case 2:
                out[at:at] = dice.randbytes(dice.randint(1, 9))
            case 3:
                del out[at : at + dice.randint(1, 9)]
            case 4:
                del out[at:]
            case _:
                out[at:] = other[dice.randrange(len(other) + 1) :]
    return bytes(out[:FRAME_BYTES_MAX])


def changed_header(dice: Random, frame: bytes) -> bytes:
    """Another API, or another version of it, with the same body."""
    if dice.random() < 0.5:
        return (
            frame[:2]
            + dice.choice((dice.randint(-1, 13), extreme(dice, 2)[0])).to_bytes(2, "big", signed=True)
            + frame[4:]
        )
    return dice.choice((dice.randint(-2, 80), 1_000, 32_767)).to_bytes(2, "big", signed=True) + frame[2:]
