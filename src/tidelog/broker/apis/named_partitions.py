"""The partitions that a request names as numbers under the names of topics.

A number takes four bytes of a request and some hundred in an answer about it, so here they are counted before
anything is made of them: beyond ``NAMED_MAX`` the request is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.core.types import TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.errors import ProtocolError

NAMED_MAX = 100_000


def named_partitions(topics: Iterable[tuple[str, Sequence[int]]]) -> Steps[list[TopicPartition]]:
    """To be yielded from: one by one, in the order of the request."""
    found: list[TopicPartition] = []
    for name, numbers in topics:
        if len(found) + len(numbers) > NAMED_MAX:
            raise ProtocolError(f"a request that names more than {NAMED_MAX} partitions")
        yield
        for number in numbers:
            found.append(TopicPartition(name, number))
            yield
    return found
