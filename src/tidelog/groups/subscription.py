"""The one thing a coordinator reads in what members tell their leader: the topics they subscribe to.

The rest of that metadata belongs to the clients. It is read for groups of consumers only, so that positions
in topics which somebody still reads are neither deleted nor expired. What cannot be read counts as a
subscription to everything: that keeps more than necessary, and never less.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

CONSUMER = "consumer"
"""The protocol type of groups whose members are consumers."""

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(all_metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of these members subscribes to; None if nobody can tell."""
    topics: set[str] = set()
    for metadata in all_metadata:
        try:
            topics.update(_topics(metadata))
        except (StructError, UnicodeDecodeError, ValueError):
            return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    """A subscription begins with a version and the names of topics, in every version; more may follow."""
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
