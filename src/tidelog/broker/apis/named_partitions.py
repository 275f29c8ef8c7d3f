"""The partitions of a request that lists numbers under topic names.

A number takes four bytes in a request and some hundred in the answer, so they are counted first: beyond
``NAMED_MAX`` the request is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.core.types import TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.errors import ProtocolError

NAMED_MAX = 100_000


def named_partitions(topics: Iterable[tuple[str, Sequence[int]]]) -> Steps[list[TopicPartition]]:
    """Use with ``yield from``: all partitions, in the order of the request."""
    found: list[TopicPartition] = []
    for name, numbers in topics:
        if len(found) + len(numbers) > NAMED_MAX:
            raise ProtocolError(f"a request that names more than {NAMED_MAX} partitions")
        yield
        for number in numbers:
            found.append(TopicPartition(name, number))
            yield
    return found
