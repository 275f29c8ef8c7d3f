"""Record batches as a hostile producer makes them: valid ones, ones that lie in one field, and bombs.

Where a lie would be found out by the CRC alone, the CRC is made to fit it: what is behind that check is what
is to be reached.
"""

from __future__ import annotations

from random import Random
from struct import pack_into

from crc32c import crc32c

from tidelog.wire.batch import CRC_START, HEADER_SIZE, LENGTH_END
from tidelog.wire.compression import Compression, compress
from tidelog.wire.records import Record, build_batch

CRC_AT = 17
_ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 21, 23, 57
_FIELDS = (
    # Where each field of the header is, and its width.
    *((0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8)),
    *((35, 8), (43, 8), (51, 2), (53, 4), (57, 4)),
)
_VALID_SHARE = 0.4
_TIMESTAMP_MS = 1_790_000_000_000
"""Fixed: a frame of a seed is always the same bytes."""
_INFLATED_BYTES = 96 << 20
"""Of a bomb: less than the codec refuses unseen, so that it is met where records are read."""
_BOMB_BYTES_MAX = 1_000_000
"""A topic takes no larger batch."""


def draw_batch(dice: Random) -> bytes:
    """A record set: mostly one batch, mostly valid or almost."""
    batch = _plain(dice)
    if dice.random() < _VALID_SHARE:
        return batch
    match dice.randrange(7):
        case 0:
            return b""
        case 1:
            return batch + _plain(dice)
        case 2:
            return batch[: dice.randrange(len(batch))]
        case 3:
            return dice.randbytes(dice.randrange(200))
        case 4:
            return _broken(dice, batch, mended=False)
        case _:
            return _broken(dice, batch, mended=True)


def _plain(dice: Random) -> bytes:
    keyed = dice.random() < 0.7
    records = [
        Record(
            timestamp=_TIMESTAMP_MS + number,
            key=b"k%d" % dice.randrange(8) if keyed else None,
            value=None if dice.random() < 0.1 else b"v" * dice.choice((0, 1, 10, 100)),
            headers=[("h", b"1")] * dice.choice((0, 0, 0, 1, 3)),
        )
        for number in range(dice.choice((1, 1, 2, 5)))
    ]
    if dice.random() < 0.6:
        return build_batch(records, compression=dice.choice(list(Compression)))
    return build_batch(
        records,
        compression=dice.choice(list(Compression)),
        producer_id=dice.randrange(50),
        producer_epoch=dice.choice((0, 0, 0, 1)),
        base_sequence=dice.choice((0, 0, 1, 5)),
        transactional=dice.random() < 0.05,
        control=dice.random() < 0.05,
    )


def _broken(dice: Random, batch: bytes, *, mended: bool) -> bytes:
    """One or two fields of the header, or bytes of the records, are something else."""
    changed = bytearray(batch)
    for _ in range(dice.choice((1, 1, 2))):
        if dice.random() < 0.5:
            at, width = dice.choice(_FIELDS)
            changed[at : at + width] = extreme(dice, width)
        elif len(changed) > HEADER_SIZE:
            changed[dice.randrange(HEADER_SIZE, len(changed))] = dice.randrange(256)
    if mended:
        mend(changed)
    return bytes(changed)


def mend(batch: bytearray) -> None:
    """Make length and CRC fit."""
    pack_into(">i", batch, LENGTH_END - 4, len(batch) - LENGTH_END)
    pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_START:]))


def extreme(dice: Random, width: int) -> bytes:
    """A number of so many bytes that a program may not have thought of."""
    largest = (1 << (8 * width - 1)) - 1
    value = dice.choice((0, 1, -1, largest, -largest - 1, largest - 1, dice.randint(-largest, largest)))
    return value.to_bytes(width, "big", signed=True)


# ---------------------------------------------------------------- bombs


def many_records(compression: Compression) -> bytes:
    """A batch that inflates to millions of records of eight bytes, each with a key, all the same."""
    record = b"\x0e\x00\x00\x00\x02k\x00\x00"
    count = _INFLATED_BYTES // len(record)
    while len(bomb := _bomb(record * count, count, compression)) > _BOMB_BYTES_MAX:
        count //= 2
    return bomb


def one_record(compression: Compression) -> bytes:
    """A batch that inflates to nothing but zeros, which it says are one record."""
    size = 2 * _INFLATED_BYTES
    while len(bomb := _bomb(bytes(size), 1, compression)) > _BOMB_BYTES_MAX:
        size //= 2
    return bomb


def _bomb(content: bytes, count: int, compression: Compression) -> bytes:
    batch = bytearray(build_batch([Record(timestamp=_TIMESTAMP_MS, key=b"k", value=b"")]))
    del batch[HEADER_SIZE:]
    batch += compress(content, compression)
    pack_into(">h", batch, _ATTRIBUTES_AT, compression)
    pack_into(">i", batch, _LAST_DELTA_AT, count - 1)
    pack_into(">i", batch, _COUNT_AT, count)
    mend(batch)
    return bytes(batch)
