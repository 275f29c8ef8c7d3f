"""The headers of many batches at once, as columns of numbers."""

from __future__ import annotations

import numpy as np

from tidelog.pipeline.segments.varints import Bytes, Flags, Ints
from tidelog.wire.batch import (
    COMPRESSION_BITS,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

_NUMPY = {"b": "i1", "h": ">i2", "i": ">i4", "I": ">u4", "q": ">i8"}
_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
_LAYOUT = np.dtype([(name, _NUMPY[code]) for name, code in zip(_FIELDS, HEADER.format[1:], strict=True)])
_SPAN = np.arange(HEADER_SIZE)


class BatchHeaders:
    """The batches that begin at `starts` of some bytes. `positions` is where they begin in their file."""

    __slots__ = ("_headers", "attributes", "positions")

    def __init__(self, data: Bytes, starts: Ints, file_position: int) -> None:
        self._headers = np.ascontiguousarray(data[starts[:, None] + _SPAN]).view(_LAYOUT).reshape(-1)
        self.positions: Ints = starts + file_position
        self.attributes = self["attributes"]

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, field: str) -> Ints:
        return self._headers[field].astype(np.int64)

    @property
    def next_offsets(self) -> Ints:
        return self["base_offset"] + self["last_offset_delta"] + 1

    @property
    def codecs(self) -> Ints:
        return self.attributes & COMPRESSION_BITS

    def flag(self, bit: int) -> Flags:
        found: Flags = self.attributes & bit != 0
        return found

    @property
    def transactional(self) -> Flags:
        return self.flag(TRANSACTIONAL_BIT)

    @property
    def control(self) -> Flags:
        return self.flag(CONTROL_BIT)

    @property
    def append_time(self) -> Flags:
        """Whether the broker's clock gave the timestamps."""
        return self.flag(TIMESTAMP_TYPE_BIT)


def misplaced(bases: Ints, nexts: Ints, expected: int) -> tuple[list[int], int]:
    """The batches whose offsets cannot stand where they are, and the offset that is expected afterwards.

    Offsets grow along a log; compaction leaves gaps, but nothing goes back. The base offset lies outside the
    CRC, so a flipped bit there shows only by its neighbours: if a batch jumps ahead of the one that follows,
    and that one continues what came before, the jump was the mistake.
    """
    before = np.concatenate(([expected], nexts[:-1]))
    if (bases >= before).all():
        return [], int(nexts[-1]) if len(nexts) else expected
    wrong = []
    for number, (base, behind) in enumerate(zip(bases.tolist(), nexts.tolist(), strict=True)):
        follower = int(bases[number + 1]) if number + 1 < len(bases) else None
        if base < expected or (follower is not None and expected <= follower < behind):
            wrong.append(number)
        else:
            expected = behind
    return wrong, expected
