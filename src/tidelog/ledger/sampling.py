"""Which sends are recorded if not all of them are: those of some keys, the same ones in every process."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from tidelog.errors import Refusal

_ALL: Final = 1 << 32


def threshold(share: float) -> int | None:
    """The CRC-32 below which a key is in a sample of this share; None: every send is. Raises `Refusal`."""
    if not 0 < share <= 1:
        raise Refusal(f"sample={share}: give a share of the keys, above 0 and up to 1")
    return None if share == 1 else max(int(share * _ALL), 1)


def chosen(limit: int, key: bytes | None, value: bytes | None) -> bool:
    """Whether a record is in the sample. One without a key is chosen by its value."""
    return crc32(key if key is not None else value or b"") < limit
