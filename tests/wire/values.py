"""Message values for the tests: made from the declarations, reproducible, and mean in every corner.

A sample fills what its version carries and leaves the rest at its default, so that it survives a journey
through that version unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from random import Random
from typing import Any, TypeVar

from tidelog.wire.api_keys import Api, ApiSchema, find_schema
from tidelog.wire.errors import ErrorCode
from tidelog.wire.schema import BLOB, RECORDS, Array, Field, Fixed, Kind, Struct, fields_of

T = TypeVar("T")

TEXTS = ["", "a", "topic-0", "Grüße, 世界 🌊", "x" * 126, "y" * 127, "z" * 300]
BLOBS = [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"b" * 126, b"b" * 127]
RECORD_SETS = [b"", b"r", b"r" * 200, b"r" * 5000]
ERROR_CODES = [int(code) for code in ErrorCode if code <= ErrorCode.FEATURE_UPDATE_FAILED]
# Peers turn what is a time into a `datetime`, which ends long before 64 bits do.
TIMES_MS = [0, 1, 1_700_000_000_000, 4_000_000_000_000]
SAMPLES = 6
# The array that is long enough for its count to need two bytes as a varint.
LONG_ARRAY = 130
PRIVATE_TAGS = 1000


def exchanges() -> Iterator[tuple[ApiSchema, int]]:
    """Every API in every version that can be spoken here."""
    for api in Api:
        known = find_schema(api)
        if known is not None:
            yield from ((known, version) for version in known.versions)


def finished(steps: Generator[None, None, T]) -> T:
    """What steps come to when all of them are made."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def is_private(field: Field) -> bool:
    """Whether only tidelog knows the field. To any other codec it is an unknown tag."""
    return (field.presence.tag or 0) >= PRIVATE_TAGS


def samples(
    cls: type[Any], version: int, flexible: bool, count: int = SAMPLES, *, private: bool = False
) -> Iterator[Any]:
    """First the barest value, then the fullest, then mixtures."""
    for number in range(count):
        dice = Random(f"{cls.__name__} {version} {number}")
        yield _Sampler(dice, version, flexible, private, bare=number == 0, full=number == 1).struct(cls)


class _Sampler:
    def __init__(
        self, dice: Random, version: int, flexible: bool, private: bool, *, bare: bool, full: bool
    ) -> None:
        self.dice = dice
        self.version = version
        self.flexible = flexible
        self.private = private
        self.bare = bare
        self.full = full
        self.long_arrays_left = 1

    def struct(self, cls: type[Any]) -> Any:
        values = {}
        for field in fields_of(cls):
            if self.travels(field):
                values[field.name] = self.value(field)
            elif field.default is dataclasses.MISSING:
                raise AssertionError(f"{cls.__name__}.{field.name} has no default")
        return cls(**values)

    def travels(self, field: Field) -> bool:
        if not field.presence.includes(self.version) or (is_private(field) and not self.private):
            return False
        # A tagged field is one that may be left out.
        tagged = self.flexible and field.presence.tag_in(self.version) is not None
        return not (tagged and (self.bare or (not self.full and self.dice.random() < 0.5)))

    def value(self, field: Field) -> Any:
        nullable = field.nullable_in(self.version)
        if nullable and (self.bare or (not self.full and self.dice.random() < 0.3)):
            return None
        if isinstance(field.kind, Array):
            return [self.single(field.kind.element, field.name) for _ in range(self.length())]
        return self.single(field.kind, field.name)

    def single(self, kind: Kind, name: str) -> Any:
        if isinstance(kind, Struct):
            return self.struct(kind.type)
        if isinstance(kind, Fixed):
            return self.fixed(kind, name)
        if kind == RECORDS:
            return self.pick(RECORD_SETS)
        return self.pick(BLOBS if kind == BLOB else TEXTS)

    def fixed(self, kind: Fixed, name: str) -> Any:
        if kind.format == "?":
            return self.dice.random() < 0.5
        if kind.format == "16s":
            return self.dice.randbytes(16)
        if name.endswith("error_code"):
            return self.dice.choice(ERROR_CODES)
        if kind.size == 8 and (name.endswith("_ms") or "timestamp" in name):
            return self.dice.choice(TIMES_MS)
        largest = (1 << (8 * kind.size - 1)) - 1
        return self.dice.choice([0, 1, -1, largest, -largest - 1, self.dice.randint(-largest, largest)])

    def pick(self, choices: list[Any]) -> Any:
        return choices[0] if self.bare else self.dice.choice(choices[self.full :])

    def length(self) -> int:
        if self.bare:
            return 0
        if self.full:
            return 2
        if self.long_arrays_left and self.dice.random() < 0.1:
            self.long_arrays_left -= 1
            return LONG_ARRAY
        return self.dice.choice([0, 1, 3])


def plain(value: Any, version: int) -> Any:
    """A message as nested dicts and lists of what its version carries: a form that any codec can show."""
    if isinstance(value, list):
        return [plain(item, version) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if not dataclasses.is_dataclass(value):
        return value
    return {
        field.name: plain(getattr(value, field.name), version)
        for field in fields_of(type(value))
        if field.presence.includes(version) and not is_private(field)
    }
