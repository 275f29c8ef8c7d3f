"""What faults ask of a cluster, simulated or made of processes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tidelog.faults.places import Channel, Node

Links = Iterable[tuple[Node, Node]]
"""Directions: from, to."""


class FaultFailed(Exception):
    """It could not be done. The message is one line that says why."""


class Ability(Enum):
    """What a cluster must be prepared for before it starts."""

    LINKS = "links"
    """Links can be cut and slowed down."""
    MESSAGES = "messages"
    """Messages can be distinguished, and held."""
    SLOW_DISK = "slow disk"


class ProcessView(Protocol):
    """Whether there is anything to do."""

    def is_up(self, broker: int) -> bool: ...
    def is_paused(self, broker: int) -> bool: ...


class Testbed(Protocol):
    """Each method returns when its effect is there, or raises `FaultFailed`: so do those that a testbed does
    not have."""

    # ------------------------------------------------------------ processes
    def kill(self, broker: int) -> None: ...
    def lose_power(self, broker: int) -> None:
        """As `kill`, and what was not synced is gone."""
        ...

    def stop(self, broker: int) -> None:
        """In order: leadership moves first."""
        ...

    def start(self, broker: int) -> None: ...
    def pause(self, broker: int) -> None: ...
    def resume(self, broker: int) -> None: ...

    # ------------------------------------------------------------ network
    def border(self, zone: str) -> list[tuple[Node, Node]]:
        """All links between a zone and the others."""
        ...

    def cut(self, links: Links) -> None: ...
    def mend(self, links: Links | None) -> None:
        """None: all."""
        ...

    def delay(self, links: Links, ms: int) -> None: ...
    def hold(self, channels: Iterable[Channel] | None) -> None:
        """Messages wait in the network. None: all."""
        ...

    def release(self, channels: Iterable[Channel] | None) -> None: ...
    def reset_connections(self, a: int, b: int) -> None:
        raise FaultFailed("connections cannot be reset here")

    # ------------------------------------------------------------ the keeper
    def keeper_member(self, member: int, *, running: bool) -> None: ...
    def keeper(self, *, running: bool) -> None:
        """All of it."""
        raise FaultFailed("the keeper cannot be stopped as a whole here")

    # ------------------------------------------------------------ disks and clocks
    def fill_disk(self, broker: int) -> None:
        raise FaultFailed("disks cannot be filled here")

    def free_disk(self, broker: int) -> None:
        raise FaultFailed("disks cannot be filled here")

    def slow_disk(self, broker: int, ms: int) -> None:
        raise FaultFailed("disks cannot be slowed down here")

    def set_clock(self, broker: int, offset_ms: int) -> None:
        """Restart a broker with a clock that is wrong by so much, or right."""
        raise FaultFailed("clocks cannot be set here")

    # ------------------------------------------------------------ administration
    def elect_preferred(self) -> bool:
        """False if there is no controller to ask."""
        ...


class HealingTestbed(Testbed, Protocol):
    def heal(self) -> list[str]:
        """Undo everything: all brokers run, all links work. What could not be undone."""
        ...
