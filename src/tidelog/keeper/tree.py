"""ZooKeeper's data tree as a plain state machine: nodes, sessions, one-shot watches and atomic multi.

Rules of this file:

* Pure: no IO, clock or randomness, and no set is ever iterated. Equal calls give equal trees and equal
  answers.
* A write is checked completely before it changes anything, so a refused write needs no repair. A ``Multi``
  runs its writes in order, each sees the earlier ones, and undoes them, last first, when one is refused. A
  ``_Change`` records what a write did; the list of changes is both the undo log and, at the end, the list of
  watches to fire. Hence a refused ``Multi`` cannot fire a watch.
* Every order that a caller can see is fixed: nodes by path (as strings, so a parent comes before its
  children), watchers of one path by the order of their requests.
* A node does not refer to its parent: without cycles a tree is freed as soon as the simulator drops it.

As in ZooKeeper, a sequential suffix is the number of children, of any kind, that the parent has ever had.
ZooKeeper's further errors map to those of the port: a child of an ephemeral node, a relative path and an
empty name are NO_PARENT, since no node can be their parent; deleting the root is NOT_EMPTY.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.core.keeper_port import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Delete,
    Get,
    KeeperError,
    Multi,
    Operation,
    Result,
    SetValue,
    Stat,
    StoredNode,
    Subtree,
    WatchFired,
    Write,
)
from tidelog.core.types import InvariantViolation

ROOT = "/"
PERSISTENT = 0
"""The owner of a node that belongs to no session; session ids start above it."""

Notifications = list[tuple[int, WatchFired]]
"""The fired watches, each with its session, in order."""

_Watchers = dict[str, dict[int, None]]
"""Path to the sessions that watch it. A dict, because it keeps the order of insertion."""


class _Entry:
    """A position in the tree. Its node is immutable and replaced by every SetValue."""

    __slots__ = ("children", "children_created", "node")

    def __init__(self, node: StoredNode) -> None:
        self.node = node
        self.children: dict[str, _Entry] = {}
        self.children_created = 0


class _Change(NamedTuple):
    """What a write did to ``entry``: created (nothing ``before``), deleted (nothing ``after``) or set it."""

    path: str
    entry: _Entry
    before: StoredNode | None
    after: StoredNode | None


class Tree:
    """The nodes, sessions and pending watches of one keeper."""

    __slots__ = ("_child_watches", "_data_watches", "_entries", "_ephemerals", "_sessions_opened", "_zxid")

    def __init__(self) -> None:
        self._entries = {ROOT: _Entry(StoredNode(None, Stat(created=0, version=0)))}
        self._ephemerals: dict[int, dict[str, None]] = {}  # open session to the paths it owns
        self._data_watches: _Watchers = {}
        self._child_watches: _Watchers = {}
        self._sessions_opened = 0
        self._zxid = 0

    def open_session(self) -> int:
        self._sessions_opened += 1
        self._ephemerals[self._sessions_opened] = {}
        return self._sessions_opened

    def has_session(self, session: int) -> bool:
        return session in self._ephemerals

    def close_session(self, session: int) -> Notifications:
        """End a session, by request or by expiry, and delete its ephemeral nodes in one transaction.

        Its watches are removed first, because their client is gone. A closed session stays closed.
        """
        self.forget_watches(session)
        changes: list[_Change] = []
        for path in sorted(self._ephemerals.get(session, ())):
            self._delete(Delete(path), changes)
        self._ephemerals.pop(session, None)
        if changes:
            self._zxid += 1
        return self._fire(changes)

    def forget_watches(self, session: int) -> None:
        """Remove the watches of a session whose connection broke; the session lives on."""
        _forget(self._data_watches, session)
        _forget(self._child_watches, session)

    def apply(self, session: int, operation: Operation) -> tuple[Result, Notifications]:
        """Execute one operation atomically. Returns the result and the fired watches.

        The port has no error for an expired session, because an adapter reports expiry in another way: it
        checks ``has_session`` first. An operation of an expired session is a bug of the adapter.
        """
        if session not in self._ephemerals:
            raise InvariantViolation(f"session {session} is not open: {operation}")
        if isinstance(operation, Get):
            return self._get(session, operation), []
        if isinstance(operation, (Children, Subtree)):
            return self._list(session, operation), []
        changes: list[_Change] = []
        if isinstance(operation, Multi):
            result = self._multi(session, operation, changes)
        else:
            result = self._write(session, operation, changes)
        if result.error is not None:
            return result, []
        self._zxid += 1
        return result, self._fire(changes)

    def make_path(self, path: str) -> Notifications:
        """Create a persistent node and its missing parents, each in its own transaction."""
        if path in self._entries:
            return []
        fired = self.make_path(_parent_of(path))
        changes: list[_Change] = []
        if self._create(PERSISTENT, Create(path), changes).error is not None:
            raise InvariantViolation(f"no persistent node can be made at {path!r}")
        self._zxid += 1
        return fired + self._fire(changes)

    def get(self, path: str) -> StoredNode | None:
        """Read a node without a session."""
        entry = self._entries.get(path)
        return None if entry is None else entry.node

    def dump(self) -> dict[str, Any]:
        """The full state as plain values: trees with equal dumps answer future calls equally."""
        entries = self._entries.items()
        return {
            "zxid": self._zxid,
            "sessions opened": self._sessions_opened,
            "nodes": {path: (e.node, e.children_created, sorted(e.children)) for path, e in entries},
            "ephemerals": {session: sorted(paths) for session, paths in self._ephemerals.items()},
            "data watches": {path: list(who) for path, who in self._data_watches.items()},
            "child watches": {path: list(who) for path, who in self._child_watches.items()},
        }

    @classmethod
    def load(cls, dump: dict[str, Any]) -> Tree:
        """The tree of a dump, without watches: those belong to connections."""
        tree = cls()
        tree._zxid = dump["zxid"]
        tree._sessions_opened = dump["sessions opened"]
        tree._ephemerals = {session: {} for session in dump["ephemerals"]}
        tree._entries = {}
        for path in sorted(dump["nodes"]):
            node, children_created, _ = dump["nodes"][path]
            entry = _Entry(node)
            entry.children_created = children_created
            if path == ROOT:
                tree._entries[ROOT] = entry
            else:
                tree._attach(path, entry)
        return tree

    # ------------------------------------------------------------ reads

    def _get(self, session: int, read: Get) -> Result:
        if read.watch:
            self._data_watches.setdefault(read.path, {})[session] = None
        entry = self._entries.get(read.path)
        return Result(KeeperError.NO_NODE) if entry is None else Result(None, entry.node)

    def _list(self, session: int, read: Children | Subtree) -> Result:
        top = self._entries.get(read.path)
        if top is None:
            return Result(KeeperError.NO_NODE)
        if read.watch:
            self._child_watches.setdefault(read.path, {})[session] = None
        found = dict(top.children)
        below = list(found.values()) if isinstance(read, Subtree) else []
        while below:
            children = below.pop().children
            found.update(children)
            below.extend(children.values())
        return Result(None, {path: found[path].node for path in sorted(found)})

    # ------------------------------------------------------------ writes

    def _multi(self, session: int, multi: Multi, changes: list[_Change]) -> Result:
        values = []
        for index, write in enumerate(multi.writes):
            result = self._write(session, write, changes)
            if result.error is not None:
                self._undo(changes)
                return Result(result.error, index)
            values.append(result.value)
        return Result(None, values)

    def _write(self, session: int, write: Write, changes: list[_Change]) -> Result:
        if isinstance(write, SetValue):
            return self._set(write, changes)
        if isinstance(write, Create):
            return self._create(session, write, changes)
        if isinstance(write, Delete):
            return self._delete(write, changes)
        found = self._find(write)
        return Result(found if isinstance(found, KeeperError) else None)

    def _find(self, write: SetValue | Delete | Check) -> _Entry | KeeperError:
        """The entry that a write changes, or an error if it is missing or has another version."""
        entry = self._entries.get(write.path)
        if entry is None:
            return KeeperError.NO_NODE
        if write.version not in (ANY_VERSION, entry.node.stat.version):
            return KeeperError.BAD_VERSION
        return entry

    def _create(self, session: int, write: Create, changes: list[_Change]) -> Result:
        path = write.path
        parent = self._entries.get(_parent_of(path))
        if parent is None or parent.node.stat.owner != PERSISTENT:
            return Result(KeeperError.NO_PARENT)
        if write.sequential:
            path = f"{path}{parent.children_created:010}"
        if path in self._entries:
            return Result(KeeperError.NODE_EXISTS)
        if not path.startswith("/") or path.endswith("/") or "//" in path:
            return Result(KeeperError.NO_PARENT)
        stat = Stat(self._zxid + 1, 0, session if write.ephemeral else PERSISTENT)
        entry = _Entry(StoredNode(write.value, stat))
        self._attach(path, entry)
        parent.children_created += 1
        changes.append(_Change(path, entry, None, entry.node))
        return Result(None, stat, path)

    def _set(self, write: SetValue, changes: list[_Change]) -> Result:
        entry = self._find(write)
        if isinstance(entry, KeeperError):
            return Result(entry)
        before, old = entry.node, entry.node.stat
        stat = Stat(old.created, old.version + 1, old.owner)
        entry.node = StoredNode(write.value, stat)
        changes.append(_Change(write.path, entry, before, entry.node))
        return Result(None, stat)

    def _delete(self, write: Delete, changes: list[_Change]) -> Result:
        entry = self._find(write)
        if isinstance(entry, KeeperError):
            return Result(entry)
        if entry.children or write.path == ROOT:
            return Result(KeeperError.NOT_EMPTY)
        self._detach(write.path, entry)
        changes.append(_Change(write.path, entry, entry.node, None))
        return Result()

    # ------------------------------------------------------------ changes

    def _attach(self, path: str, entry: _Entry) -> None:
        self._entries[path] = self._entries[_parent_of(path)].children[path] = entry
        owner = entry.node.stat.owner
        if owner != PERSISTENT:
            self._ephemerals[owner][path] = None

    def _detach(self, path: str, entry: _Entry) -> None:
        del self._entries[path]
        del self._entries[_parent_of(path)].children[path]
        owner = entry.node.stat.owner
        if owner != PERSISTENT:
            del self._ephemerals[owner][path]

    def _undo(self, changes: list[_Change]) -> None:
        for path, entry, before, after in reversed(changes):
            if before is None:
                self._detach(path, entry)
                self._entries[_parent_of(path)].children_created -= 1
            elif after is None:
                self._attach(path, entry)
            else:
                entry.node = before

    def _fire(self, changes: list[_Change]) -> Notifications:
        """Remove and return the watches that these changes fire: a watch fires once."""
        fired: Notifications = []
        for path, _, before, after in changes:
            for session in self._data_watches.pop(path, ()):
                fired.append((session, WatchFired(path, children=False)))
            if not self._child_watches or (before is not None and after is not None):
                continue
            # Only a deleted node can have a child watch of its own here: a missing node accepts none.
            for concerned in (path, _parent_of(path)):
                for session in self._child_watches.pop(concerned, ()):
                    fired.append((session, WatchFired(concerned, children=True)))
        return fired


def _parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def _forget(watches: _Watchers, session: int) -> None:
    for path in [path for path, who in watches.items() if session in who]:
        del watches[path][session]
        if not watches[path]:
            del watches[path]
