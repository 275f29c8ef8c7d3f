"""The port to the keeper, the coordination service: ZooKeeper's data model in a dozen small classes.

A broker sends one of these operations, the keeper answers with a ``Result``; watches are one-shot and come
back as ``WatchFired``. Values are immutable Python objects: an adapter for ZooKeeper encodes them as Kafka's
JSON, the simulator stores them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidelog.core.types import immutable

ANY_VERSION = -1


class KeeperError(Enum):
    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    NO_PARENT = "no parent"
    TOO_LARGE = "too large"
    """The operation is larger than the keeper accepts: nothing was done, and repeating it would not help."""
    REFUSED = "refused"
    """The keeper has a reason of its own, such as missing rights. A task ends with it."""


# ---------------------------------------------------------------- writes


@immutable
class Create:
    """``ephemeral`` nodes die with the session; ``sequential`` ones get a 10-digit suffix."""

    path: str
    value: Any = None
    ephemeral: bool = False
    sequential: bool = False


@immutable
class SetValue:
    path: str
    value: Any
    version: int = ANY_VERSION


@immutable
class Delete:
    path: str
    version: int = ANY_VERSION


@immutable
class Check:
    """Succeeds only if the node exists at this version: the fence inside a ``Multi``."""

    path: str
    version: int


Write = Create | SetValue | Delete | Check


@immutable
class Multi:
    """All of the writes, or none. ``Result.value`` is the list of their stats (None for Delete, Check)."""

    writes: tuple[Write, ...]


# ---------------------------------------------------------------- reads


@immutable
class Get:
    """``watch`` fires once when the node is created, changed or deleted, also if it does not exist now."""

    path: str
    watch: bool = False


@immutable
class Children:
    """The direct children with their values; ``watch`` fires once when a child is created or deleted. Without
    ``values`` only the names are needed, which saves an adapter one request per child."""

    path: str
    watch: bool = False
    values: bool = True


@immutable
class Subtree:
    """Every node below ``path`` with its value; ``watch`` as for ``Children``."""

    path: str
    watch: bool = False


Operation = Write | Multi | Get | Children | Subtree

# ---------------------------------------------------------------- answers


@immutable
class Stat:
    """``created`` is the transaction that made the node (czxid), ``owner`` its session (0: persistent)."""

    created: int
    version: int
    owner: int = 0


@immutable
class StoredNode:
    value: Any
    stat: Stat


@dataclass(slots=True)
class Result:
    """``value``: for Create/SetValue a ``Stat``, for Multi a list, for Get a ``StoredNode``, for Children and
    Subtree a mapping from full path to ``StoredNode`` in path order. ``path`` is the node a Create made."""

    error: KeeperError | None = None
    value: Any = None
    path: str = ""

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def nodes(self) -> Mapping[str, StoredNode]:
        return self.value if self.value is not None else {}


@dataclass(slots=True)
class KeeperReply:
    call: int
    result: Result


@dataclass(slots=True)
class WatchFired:
    """The watch set by ``Get`` (``children=False``) or ``Children``/``Subtree`` (``True``) on this path."""

    path: str
    children: bool


@dataclass(slots=True)
class SessionStarted:
    """A new session: ephemeral nodes of earlier sessions do not belong to it."""

    session: int


@dataclass(slots=True)
class SessionResumed:
    """The client reconnected within the session: unanswered calls may or may not have been executed."""
