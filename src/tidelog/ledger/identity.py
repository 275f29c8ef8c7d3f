"""How a ledger names a record, so that the send, the read and the log of a broker speak of the same one.

Two names, both short texts in the column `value` of the evidence:

* *By its header*: ``4f1c…09aa-1207`` is number 1207 of the stream 4f1c…09aa. A stream is what one wrapped
  producer sends to one topic; its id is 64 random bits. The record carries it in a header of 20 bytes: stream
  and number as 64 bits each, then the CRC-32C of the value, all big-endian. Where the value has another CRC,
  the name ends with an exclamation mark: it is not the record that was sent.
* *By its content*, without that header: ``87.1f0c99d2``, the size of the value and its CRC-32C. Records with
  the same value have the same name, and a changed value has another.

Both hold the CRC, so `value_crc32` is null in a kept ledger. CRC-32C is the one that processors compute: for
a value of 1 kB it takes a fraction of the time of CRC-32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from crc32c import crc32c

HEADER: Final = "tidelog"
"""The name of the header."""
_LAYOUT: Final = Struct(">QQI")
HEADER_BYTES: Final = _LAYOUT.size
pack_header: Final = _LAYOUT.pack
"""Stream, number, CRC-32C of the value."""


class Origin(NamedTuple):
    """What the header of a record says."""

    stream: int
    sequence: int
    crc: int

    def name(self, crc: int) -> str:
        """The name of the record, whose value has this CRC-32C."""
        return f"{self.stream:016x}-{self.sequence}{'' if crc == self.crc else '!'}"


def origin_of(headers: Iterable[tuple[Any, Any]] | Mapping[Any, Any] | None) -> Origin | None:
    """The origin of a record, of its headers; None: no wrapped producer sent it."""
    if not headers:
        return None
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if name == HEADER and value is not None and len(value) == HEADER_BYTES:
            return Origin(*_LAYOUT.unpack(value))
    return None


def content_name(size: int, crc: int) -> str:
    return f"{size}.{crc:08x}"


def record_name(headers: Iterable[tuple[Any, Any]] | None, value: bytes | None) -> str | None:
    """The name of a record that was read; None: it has neither header nor value."""
    origin, crc = origin_of(headers), crc32c(value or b"")
    if origin is not None:
        return origin.name(crc)
    return None if value is None else content_name(len(value), crc)


def by_content(name: str) -> bool:
    """Whether a name was made of the content alone, so that other records may have it too."""
    return "-" not in name
