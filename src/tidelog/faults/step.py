"""What is done to a cluster, as a value: a verb and its arguments, printed as a scenario file writes them."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.types import immutable
from tidelog.faults.places import Channel

EVERY_GENERATION = "all"


@immutable
class Claim:
    """Something that a passage says has happened: ``error=75``, ``truncates!=0``."""

    name: str
    value: str
    denied: bool = False

    def __str__(self) -> str:
        return f"{self.name}{'!=' if self.denied else '='}{self.value}"


@immutable
class Passage:
    """A part of the narration above a step, with the generations that it is true under and what it claims."""

    text: str
    generations: tuple[str, ...] = ()
    """None: all of them."""
    claims: tuple[Claim, ...] = ()

    def belongs_to(self, generation: str) -> bool:
        return not self.generations or generation in self.generations

    def marker(self, *, first: bool) -> str:
        """What is written before the text: ``[hw,kip101 error=6]``. Without one a passage would be read as
        part of the passage before it."""
        words = [",".join(self.generations)] if self.generations else []
        words += map(str, self.claims)
        if not words and not first:
            words = [EVERY_GENERATION]
        return f"[{' '.join(words)}]" if words else ""


@immutable
class Step:
    verb: str
    args: tuple[object, ...] = ()
    narration: tuple[Passage, ...] = ()

    @property
    def client(self) -> str | None:
        if self.verb not in ("produce", "send", "read", "poll"):
            return None
        return self.args[0].client if isinstance(self.args[0], Aimed) else str(self.args[0])

    def __str__(self) -> str:
        return " ".join([self.verb, *(print_argument(arg) for arg in self.args)])


@dataclass(slots=True, frozen=True)
class Duration:
    ms: int


@dataclass(slots=True, frozen=True)
class Aimed:
    """A producer that sends to this broker, whichever broker it believes to be the leader."""

    client: str
    broker: int

    def __str__(self) -> str:
        return f"{self.client}->{self.broker}"


@dataclass(slots=True, frozen=True)
class Sides:
    """The two sides of a cut: lists of zones or nodes, one way or both."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    one_way: bool = False

    def __str__(self) -> str:
        arrow = " -> " if self.one_way else " "
        return ",".join(self.left) + arrow + ",".join(self.right)


def print_argument(arg: object) -> str:
    if isinstance(arg, Duration):
        return print_duration(arg.ms)
    if isinstance(arg, tuple) and not isinstance(arg, Channel):
        return ",".join(map(str, arg))
    return "none" if arg is None else str(arg)


def print_duration(ms: int) -> str:
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"
