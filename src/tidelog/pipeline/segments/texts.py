"""Keys and values as the evidence names them: by the first bytes of their text.

The journals of clients keep the first characters of a key and of a value's id, in plain ASCII; what is empty
there is null. A record of a segment file must get the same name, or it would not be found.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.journals.clients import READ_COLUMNS, plain
from tidelog.pipeline.segments.places import Places, as_binary

_WIDTHS = {column.name: column.width for column in READ_COLUMNS}
KEY_BYTES = _WIDTHS["key"]
ID_BYTES = _WIDTHS["value"]


def key_text(key: bytes | None) -> str | None:
    return plain(key[:KEY_BYTES]).decode("ascii") or None if key else None


def id_text(value: bytes | None) -> str | None:
    return plain(value.partition(b" ")[0][:ID_BYTES]).decode("ascii") or None if value else None


def key_texts(data: bytes, keys: Places) -> Any:
    return _texts(as_binary(data, keys.cut(KEY_BYTES)))


def id_texts(data: bytes, values: Places) -> Any:
    first = values.cut(ID_BYTES)
    spaces = pc.find_substring(as_binary(data, first), " ").fill_null(-1).to_numpy(zero_copy_only=False)
    behind = np.where(spaces >= 0, first.start + spaces, first.behind)
    return _texts(as_binary(data, Places(first.start, behind, first.null)))


def crcs(data: bytes, values: Places) -> Any:
    pairs = zip(values.start.tolist(), values.behind.tolist(), strict=True)
    sums = np.array([crc32(data[start:behind]) for start, behind in pairs], np.int64)
    return pa.array(sums, mask=values.null)


def _texts(pieces: Any) -> Any:
    """Text in plain ASCII; empty is null."""
    letters = _letters(pieces)
    if ((letters > 0x7F) | (letters == 0)).any():
        plained = [None if piece is None else plain(piece) for piece in pieces.to_pylist()]
        pieces = pa.array(plained, pa.binary())
    text = pieces.cast(pa.string())
    return pc.if_else(pc.equal(pc.binary_length(text), 0), pa.scalar(None, pa.string()), text)


def _letters(pieces: Any) -> npt.NDArray[np.uint8]:
    """All bytes of a binary array, one after the other."""
    _, bounds, content = pieces.buffers()
    if content is None or not len(pieces):
        return np.empty(0, np.uint8)
    size = np.frombuffer(bounds, np.int32, count=len(pieces) + 1)[-1]
    return np.frombuffer(content, np.uint8, count=size)
