"""Booted worlds for those who need thousands: a cluster boots the same way every time, so it is done once for
each setup and copied from then on.

A copy is made by a function that was written for it. ``_Recipe`` walks through a booted world once and writes
down, as Python source, how to build another one: a line for every object and for each of its attributes. That
is ten times as fast as reading back a pickle, because nothing is left to find out. What cannot change
(settings, guards, what the keeper holds) is not copied but shared by all worlds of a setup.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from tidelog.core.config import BrokerConfig
from tidelog.core.generations import Generation
from tidelog.core.guards import Guards
from tidelog.core.keeper_port import Check, Stat, StoredNode
from tidelog.core.messages import FetchRequest, PartitionAssignment
from tidelog.core.types import BrokerEndpoint, PartitionState, TopicConfig, TopicPartition
from tidelog.faults.places import Channel
from tidelog.lab.world.world import Observer, World
from tidelog.scenario.setup import Setup, TopicSetup

_SHARED = frozenset(
    (
        *(type(None), bool, int, float, str, range, type),
        *(Setup, TopicSetup, BrokerConfig, TopicConfig, Guards),
        *(StoredNode, Stat, Check, BrokerEndpoint, PartitionState, TopicPartition, Channel),
        *(FetchRequest, PartitionAssignment),
    )
)
"""Types whose instances never change, nor anything in them."""

Copier = Callable[..., World]


class _Recipe:
    """The lines of a function that builds a copy of a world.

    An object has its name before its attributes are looked at, and the lines that fill it come after those of
    what goes into it: so objects may refer to each other in circles.
    """

    def __init__(self, world: World) -> None:
        self.constants: list[Any] = []
        """What the function is given: the classes, and all that is shared."""
        self._lines: list[str] = []
        self._names: dict[int, str] = {}
        result = self._copy(world)
        given = ", ".join(f"c{number}" for number in range(len(self.constants)))
        self.source = "\n    ".join((f"def copy({given}):", *self._lines, f"return {result}"))

    def _copy(self, obj: Any) -> str:
        """How to name the copy of an object, after adding the lines that make it."""
        known = self._names.get(id(obj))
        if known is not None:
            return known
        if _is_shared(obj):
            return self._constant(obj)
        if isinstance(obj, tuple):
            return f"({''.join(f'{self._copy(part)}, ' for part in obj)})"
        if isinstance(obj, MethodType):
            return f"{self._copy(obj.__self__)}.{obj.__name__}"
        name = self._names[id(obj)] = f"o{len(self._names)}"
        kind = type(obj)
        if kind is dict:
            self._lines.append(f"{name} = {{}}")
            self._lines += [f"{name}[{self._copy(key)}] = {self._copy(value)}" for key, value in obj.items()]
        elif kind is list:
            self._lines.append(f"{name} = []")
            self._lines += [f"{name}.append({self._copy(item)})" for item in obj]
        elif kind is deque:
            self._lines.append(f"{name} = {self._constant(deque)}()")
            self._lines += [f"{name}.append({self._copy(item)})" for item in obj]
        elif kind is set:
            self._lines.append(f"{name} = {self._constant(set)}()")
            self._lines += [f"{name}.add({self._copy(item)})" for item in obj]
        else:
            self._lines.append(f"{name} = {self._constant(object.__new__)}({self._constant(kind)})")
            self._lines += [f"{name}.{field} = {self._copy(value)}" for field, value in _fields(obj)]
        return name

    def _constant(self, obj: Any) -> str:
        name = self._names.get(id(obj))
        if name is None:
            name = self._names[id(obj)] = f"c{len(self.constants)}"
            self.constants.append(obj)
        return name


def _is_shared(obj: Any) -> bool:
    if type(obj) in _SHARED or isinstance(obj, (Enum, Generation)):
        return True
    if isinstance(obj, FunctionType):
        return obj.__closure__ is None
    return isinstance(obj, tuple) and all(map(_is_shared, obj))


def _fields(obj: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object of ours."""
    if not type(obj).__module__.startswith("tidelog."):
        raise TypeError(f"a booted world cannot be copied: it holds a {type(obj).__name__}")
    slots = [slot for kind in type(obj).__mro__ for slot in getattr(kind, "__slots__", ())]
    for field in (*slots, *getattr(obj, "__dict__", ())):
        if hasattr(obj, field):
            yield field, getattr(obj, field)


_WRITTEN: dict[str, Copier] = {}
"""Functions by their source: clusters of equal size and shape share one, whatever their settings."""
_BOOTED: dict[Setup, tuple[Copier, list[Any]]] = {}


def booted(setup: Setup, observer: Observer) -> World:
    """A world that has just booted."""
    known = _BOOTED.get(setup)
    if known is None:
        world = World(setup, _ignore)
        world.network.forget_idle()
        recipe = _Recipe(world)
        known = _BOOTED[setup] = (_written(recipe.source), recipe.constants)
    copy, constants = known
    world = copy(*constants)
    world.observe = observer
    return world


def _written(source: str) -> Copier:
    if source not in _WRITTEN:
        namespace: dict[str, Any] = {}
        exec(compile(source, "<a copy of a booted world>", "exec"), namespace)
        _WRITTEN[source] = namespace["copy"]
    return _WRITTEN[source]


def _ignore(event: object) -> None:
    pass
