"""The position of a consumer in each key, as far as the history shows it.

Rules of the file:

* A consumer expects the record after the last one it received. A consumer that has just chosen a key expects
  any record, or the first one if it asked for the beginning.
* A new choice of keys keeps the position of keys that stay, and forgets the others; the position of a
  reassigned key is forgotten as well.
* A transaction that did not commit restores the position before it. A failed single poll is not rolled back,
  so the position after it is unknown.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.evidence.importers.jepsen.operations import FAIL, INVOKE, OK, SUBSCRIBE, Key, Op


class Positions:
    """The positions of one process. For each operation call `begin`, `move` for every record, `end`."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        """The expected offset of each key; absent: any."""
        self._moved: dict[Key, int] = {}
        """The same within the current operation."""
        self._rebalanced: Collection[Key] = ()
        self.in_group = False
        """Whether a group assigns the keys: it may move the consumer between two operations."""

    def choose(self, op: Op) -> None:
        """Keys were assigned or subscribed to. Even if the outcome is unknown, the positions of keys that
        were given up are forgotten."""
        if op.type in (INVOKE, FAIL):
            return
        self.in_group = op.f == SUBSCRIBE
        self._known = {key: at for key, at in self._known.items() if key in op.keys}
        if op.from_beginning:
            self._known = dict.fromkeys(op.keys, 0) if op.type == OK else {}

    def begin(self, op: Op) -> None:
        self._rebalanced = op.rebalanced
        self._moved = {}

    def move(self, key: Key, offset: int) -> tuple[int, bool]:
        """A record of a key was polled. Returns the expected offset, and whether it is the first of this
        operation."""
        first = key not in self._moved
        waited = self._known.get(key, offset) if first else self._moved[key]
        self._moved[key] = offset + 1
        return (offset if key in self._rebalanced else waited), first

    def end(self, op: Op) -> None:
        if op.type == OK:
            self._known |= self._moved
        elif not op.is_transaction:
            for key in self._moved:
                self._known.pop(key, None)
        for key in self._rebalanced:
            self._known.pop(key, None)
