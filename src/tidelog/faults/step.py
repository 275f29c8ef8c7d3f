"""What is done to a cluster, as a value: a verb and its arguments, printed as a scenario file writes them."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.values import immutable
from tidelog.faults.places import Channel


@immutable
class Step:
    verb: str
    args: tuple[object, ...] = ()
    comment: str = ""

    @property
    def client(self) -> str | None:
        return str(self.args[0]) if self.verb in ("produce", "send", "read", "poll") else None

    def __str__(self) -> str:
        return " ".join([self.verb, *(print_argument(arg) for arg in self.args)])


@dataclass(slots=True, frozen=True)
class Duration:
    ms: int


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
