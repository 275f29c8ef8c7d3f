"""The position of a consumer in each key, as far as a history tells.

Rules of the file:

* A consumer waits behind the last record that it got. A consumer that has just chosen a key waits for any
  record, or for the first one if it asked for the beginning.
* Choosing keys anew keeps the position in those that stay, and forgets the others; a key that changed hands
  is forgotten as well.
* A transaction that did not commit leaves the consumer where it was before. A lone poll that went wrong is
  not rolled back, so it is not known where it left the consumer.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.evidence.importers.jepsen.operations import FAIL, INVOKE, OK, SUBSCRIBE, Key, Op


class Positions:
    """Those of one process. For each operation `begin`, `move` for every record, `end`."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        """What is waited for; not there: anything."""
        self._moved: dict[Key, int] = {}
        """The same within the current operation."""
        self._rebalanced: Collection[Key] = ()
        self.in_group = False
        """Whether a group decides over the keys: it may move the consumer between two operations."""

    def choose(self, op: Op) -> None:
        """Keys were assigned or subscribed to. Whether that happened may be in doubt: then, too, it is not
        known which position the consumer has in keys that it gave up."""
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
        """A record of a key came: what was waited for, and whether it is the first of this operation."""
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
