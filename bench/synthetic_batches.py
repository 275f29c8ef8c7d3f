"""Record batches by the thousand, with numpy: every batch has the same layout, only numbers in it differ.

One batch is built by tidelog's own codec and serves as a mould. A value is `p07-000012345 ....`, of fixed
width, so the place of each digit is known; digits, offsets and sequences are written into copies of the
mould, and the CRC-32C of each copy is computed anew.

The CRC-32 of a value follows from that of the mould's: a CRC is linear, so each digit that differs changes it
by an amount that depends only on the digit and its place, and that is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
from crc32c import crc32c

from tidelog.wire.batch import CRC_START
from tidelog.wire.records import Record, build_batch

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORDS_PER_BATCH = 160
KEYS = [f"k{n:03}" for n in range(RECORDS_PER_BATCH)]
"""Of the records of a batch."""
VALUE_BYTES = 100
_MOULD = b"p00-000000000"
_PRODUCER_DIGITS = (1, 2)
_SEQUENCE_DIGITS = tuple(range(4, 13))
_DIGITS = _PRODUCER_DIGITS + _SEQUENCE_DIGITS
ID_BYTES = len(_MOULD)
_PADDED = (_MOULD + b" ").ljust(VALUE_BYTES, b".")


@dataclass(slots=True, frozen=True)
class Made:
    data: bytes
    batch_bytes: int


def batches(
    base_offsets: Ints, producers: Ints, sequences: Ints, timestamps_ms: Ints, leader_epoch: int
) -> Made:
    """One batch for each element of the arrays, one after the other."""
    mould, values = _mould()
    made = np.tile(mould, (len(base_offsets), 1))
    _put(made, 0, base_offsets, ">i8")
    _put(made, 12, np.full(len(made), leader_epoch), ">i4")
    _put(made, 27, timestamps_ms, ">i8")
    _put(made, 35, timestamps_ms, ">i8")
    _put(made, 43, producers + 1000, ">i8")
    _put(made, 53, sequences % (1 << 31), ">i4")
    digits = id_digits(
        np.repeat(producers, RECORDS_PER_BATCH),
        (sequences[:, None] + np.arange(RECORDS_PER_BATCH)).ravel(),
    ).reshape(len(made), RECORDS_PER_BATCH, ID_BYTES)
    for place in _DIGITS:
        made[:, values + place] = digits[:, :, place]
    covered = made[:, CRC_START:]
    _put(made, 17, np.array([crc32c(row) for row in np.ascontiguousarray(covered)]), ">u4")
    return Made(made.tobytes(), made.shape[1])


@cache
def _mould() -> tuple[Bytes, Ints]:
    """A batch, and where in it each value begins."""
    records = [Record(timestamp=0, key=KEYS[n].encode(), value=_PADDED) for n in range(RECORDS_PER_BATCH)]
    data = build_batch(records, producer_id=0, producer_epoch=0, base_sequence=0)
    begins = [data.index(b"k%03d" % n) + 4 + len(b"\xc8\x01") for n in range(RECORDS_PER_BATCH)]
    if any(data[at : at + ID_BYTES] != _MOULD for at in begins):
        raise ValueError("values do not stand where they were looked for")
    return np.frombuffer(bytes(data), np.uint8), np.array(begins)


def _put(made: Bytes, at: int, numbers: Any, kind: str) -> None:
    """A field of the header, for all batches."""
    content = np.asarray(numbers).astype(kind)
    made[:, at : at + content.itemsize] = content.view(np.uint8).reshape(len(made), content.itemsize)


# ---------------------------------------------------------------- values


def id_digits(producers: Ints, sequences: Ints) -> Bytes:
    """The ids of values as rows of letters."""
    found = np.tile(np.frombuffer(_MOULD, np.uint8), (len(producers), 1))
    for places, numbers in ((_PRODUCER_DIGITS, producers), (_SEQUENCE_DIGITS, sequences)):
        rest = numbers
        for place in reversed(places):
            rest, digit = np.divmod(rest, 10)
            found[:, place] += digit.astype(np.uint8)
    return found


def id_texts(producers: Ints, sequences: Ints) -> Any:
    """The ids as an Arrow array of strings."""
    content = id_digits(producers, sequences)
    bounds = np.arange(0, content.size + 1, ID_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(len(content), pa.py_buffer(bounds), pa.py_buffer(content))


def value_crcs(producers: Ints, sequences: Ints) -> Ints:
    """The CRC-32 of the values with these ids."""
    digits = id_digits(producers, sequences) - ord("0")
    found = np.full(len(digits), crc32(_PADDED), np.int64)
    for place, changes in _changes().items():
        found ^= changes[digits[:, place]]
    return found


@cache
def _changes() -> dict[int, Ints]:
    """By how much each digit at each place changes the CRC of the mould."""
    zero = crc32(_PADDED)
    return {
        place: np.array(
            [zero ^ crc32(_PADDED[:place] + b"%d" % digit + _PADDED[place + 1 :]) for digit in range(10)],
            np.int64,
        )
        for place in _DIGITS
    }
