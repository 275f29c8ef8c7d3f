"""Booted worlds for those who need thousands: a cluster boots the same way every time, so it is done once for
each setup and copied from then on.

A copy is a pickle read back. What cannot change (settings, guards, what stands in the keeper) is not copied
but shared by all worlds of a setup, which halves the time.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

from tidelog.core.config import BrokerConfig
from tidelog.core.coordination import Node, Stat
from tidelog.core.generations import GENERATIONS
from tidelog.core.guards import Guards
from tidelog.core.types import PartitionState, TopicConfig, TopicPartition
from tidelog.lab.network import Channel
from tidelog.lab.setup import Setup, TopicSetup
from tidelog.lab.world import Observer, World

_SHARED = frozenset(
    (
        *(Setup, TopicSetup, BrokerConfig, TopicConfig, Guards),
        *(Node, Stat, PartitionState, TopicPartition, Channel),
        *map(type, GENERATIONS.values()),
    )
)
"""Types whose instances never change, nor anything in them."""


class _Freezer(pickle.Pickler):
    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if type(obj) not in _SHARED:
            return None
        number = self._numbers.get(id(obj))
        if number is None:
            number = self._numbers[id(obj)] = len(self.shared)
            self.shared.append(obj)
        return number


class _Thawer(pickle.Unpickler):
    def __init__(self, frozen: bytes, shared: list[Any]) -> None:
        super().__init__(BytesIO(frozen))
        self.persistent_load = shared.__getitem__  # type: ignore[method-assign]


_BOOTED: dict[Setup, tuple[bytes, list[Any]]] = {}


def booted(setup: Setup, observer: Observer) -> World:
    """A world that has just booted."""
    known = _BOOTED.get(setup)
    if known is None:
        file = BytesIO()
        freezer = _Freezer(file)
        freezer.dump(World(setup, _ignore))
        known = _BOOTED[setup] = (file.getvalue(), freezer.shared)
    world: World = _Thawer(*known).load()
    world.observe = observer
    return world


def _ignore(event: object) -> None:
    pass
