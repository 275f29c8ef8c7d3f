"""The topics of a member's subscription: the only part of its metadata that a coordinator reads.

It is read for groups of consumers only, so that offsets of subscribed topics are neither deleted nor expired.
Unreadable metadata counts as a subscription to all topics, which never drops too much.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

CONSUMER = "consumer"
"""The protocol type of consumer groups."""

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(all_metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of these members subscribes to; None if the metadata of one is unreadable."""
    topics: set[str] = set()
    for metadata in all_metadata:
        try:
            topics.update(_topics(metadata))
        except (StructError, UnicodeDecodeError, ValueError):
            return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    """In every version a subscription begins with the version and the topic names; more may follow."""
    version, count = _VERSION_AND_COUNT.unpack_from(metadata)
    position = _VERSION_AND_COUNT.size
    if version < 0 or not 0 <= count * _LENGTH.size <= len(metadata) - position:
        raise ValueError("no subscription")
    names = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            raise ValueError("no subscription")
        names.append(metadata[position : position + length].decode())
        position += length
    return names
