"""Where a fault happens: the nodes of a cluster and the channels between them.

The same names on a simulated and on a real cluster. A *channel* is one direction of one kind of connection
between two nodes, written ``fetch 1->0``.
"""

from __future__ import annotations

from typing import NamedTuple

Node = int | str
"""A broker by its id; a client, or a member of the keeper, by its name."""

KEEPER = "keeper"
"""The keeper as an address: whichever member serves."""


class Channel(NamedTuple):
    name: str
    source: Node
    target: Node

    def __str__(self) -> str:
        return f"{self.name} {self.source}->{self.target}"


CHANNEL_NAMES = (
    "fetch",
    "fetch-reply",
    "control",
    "control-reply",
    "isr",
    "isr-reply",
    "keeper",
    "keeper-reply",
    "client",
    "client-reply",
)
