"""What a client of the matrix can be asked to do. A test says once what must hold, see `features`.

A client that cannot do something says so in `lacks`, with the reason that `docs/compatibility.md` gives; one
whose programs are not on this machine raises `bench.tools.Missing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tests.groups.members import Member

__all__ = ["FEATURES", "NOT_BUILT", "Client", "Member"]

FEATURES = ("produce", "consume", "groups", "cooperative", "static", "idempotent", "admin")
NOT_BUILT = ("transactions",)
"""Columns in which no client can have more than a promise: tidelog does not offer these APIs yet."""


class Client(ABC):
    name: ClassVar[str]
    lacks: ClassVar[dict[str, str]] = {}
    """Features that this client does not have, and what it does instead."""
    quick: ClassVar[bool] = False
    """Whether its cells are run by default: they need nothing but the Python packages, and little time."""

    def __init__(self, bootstrap_servers: str) -> None:
        """`Missing` says what this machine lacks."""
        self.bootstrap_servers = bootstrap_servers

    @classmethod
    @abstractmethod
    def version(cls) -> str: ...

    def close(self) -> None:  # noqa: B027
        """End whatever process works for it, if there is one."""

    @abstractmethod
    def produce(self, topic: str, values: Sequence[str], *, idempotent: bool) -> list[int] | None:
        """Send to partition 0 with acks=all, and wait; returns the offsets if the client tells them."""

    @abstractmethod
    def consume(self, topic: str, count: int) -> list[str]:
        """The first values of partition 0."""

    def member(self, group: str, topic: str, *, cooperative: bool, instance: str | None) -> Member:
        raise NotImplementedError

    def administer(self, topic: str) -> int:
        """Create a topic of two partitions, describe it, list groups, delete it; returns how many partitions
        it was described with."""
        raise NotImplementedError
