"""What a fault hits: as a value, and as the words that a schedule keeps.

``1`` is a broker, ``1>2`` a link, ``keeper-1`` a member of the keeper and ``keeper`` all of it, ``300ms`` an
amount, anything else a zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tidelog.faults.places import KEEPER, Channel, Node


class Takes(Enum):
    """The arguments of a verb in a scenario file."""

    NOTHING = "nothing"
    BROKER = "one broker"
    BROKERS = "brokers"
    PAIR = "two brokers"
    MEMBER = "a member of the keeper"
    ZONE = "a zone"
    SIDES = "two sides"
    SIDES_OR_NOTHING = "two sides, or nothing for all"
    DELAY = "two sides and a duration"
    CHANNEL_OR_ALL = "a channel, or all"


class Moot(Enum):
    """Why there is nothing to do. (Names are those of remarks.)"""

    ALREADY_DOWN = "already down"
    ALREADY_RUNNING = "already running"
    NOT_RUNNING = "not running"
    NOT_PAUSED = "not paused"
    NO_CONTROLLER = "no controller"


@dataclass(slots=True, frozen=True)
class Targets:
    """What a fault hits. Which of these it looks at is the fault's business."""

    brokers: tuple[int, ...] = ()
    links: tuple[tuple[Node, Node], ...] = ()
    channels: tuple[Channel, ...] = ()
    zone: str = ""
    members: tuple[int, ...] = ()
    ms: int = 0
    """By how much something is slow or wrong."""


def amount_ms(words: Sequence[str]) -> int | None:
    """By how much a link or a disk is slow, or a clock wrong: the last word."""
    last = words[-1] if words else ""
    try:
        return int(last.removesuffix("ms")) if last.endswith("ms") else None
    except ValueError:
        return None


def places(words: Sequence[str]) -> tuple[str, ...]:
    """The words without the amount."""
    return tuple(words if amount_ms(words) is None else words[:-1])


def said(kind: str, words: Sequence[str]) -> str:
    """A fault with its targets, for readers: ``kill 2``, ``keeper`` and not ``keeper keeper``."""
    return f"{kind} {', '.join(word for word in words if word != kind)}".rstrip()


def read_targets(words: Sequence[str]) -> Targets:
    brokers: list[int] = []
    links: list[tuple[Node, Node]] = []
    members: list[int] = []
    zone = ""
    for word in places(words):
        if ">" in word:
            source, _, target = word.partition(">")
            links.append((_node(source), _node(target)))
        elif word.isdigit():
            brokers.append(int(word))
        elif word.startswith(f"{KEEPER}-"):
            members.append(int(word.rpartition("-")[2]))
        elif word != KEEPER:
            zone = word
    return Targets(tuple(brokers), tuple(links), zone=zone, members=tuple(members), ms=amount_ms(words) or 0)


def _node(word: str) -> Node:
    return int(word) if word.isdigit() else word
