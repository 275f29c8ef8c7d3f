"""The state of the embedded keeper that survives a restart: the tree and the sessions.

A *command* is a change of this state as a JSON list; the write-ahead log holds commands. The keeper logs a
command first and executes it afterwards, and a restart executes the logged commands: since the tree is a pure
state machine, both reach the same state. Commands that will be refused are logged too, because the result is
not known before execution.

===========================================  =====================================================
``["open", secret, timeout_ms]``             a session, which gets the next id
``["close", session]``                       its end, by request or by expiry
``["apply", session, operation]``            a write (``protocol``); nothing if the session is over
===========================================  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.core.keeper_port import Operation, Result
from tidelog.core.types import Millis
from tidelog.keeper.embedded.protocol import (
    node_from_json,
    node_to_json,
    operation_from_json,
    operation_to_json,
)
from tidelog.keeper.tree import Notifications, Tree

Command = list[Any]


@dataclass(slots=True, frozen=True)
class Session:
    secret: str
    """A client that knows the secret may resume the session on a new connection."""
    timeout_ms: Millis


def open_command(session: Session) -> Command:
    return ["open", session.secret, session.timeout_ms]


def close_command(session: int) -> Command:
    return ["close", session]


def apply_command(session: int, operation: Operation) -> Command:
    return ["apply", session, operation_to_json(operation)]


class KeeperState:
    __slots__ = ("sessions", "tree")

    def __init__(self) -> None:
        self.tree = Tree()
        self.sessions: dict[int, Session] = {}

    def open(self, session: Session) -> int:
        number = self.tree.open_session()
        self.sessions[number] = session
        return number

    def close(self, session: int) -> Notifications:
        self.sessions.pop(session, None)
        return self.tree.close_session(session)

    def apply(self, session: int, operation: Operation) -> tuple[Result, Notifications] | None:
        """None if the session ended before its operation was executed."""
        return self.tree.apply(session, operation) if session in self.sessions else None

    def replay(self, command: Command) -> None:
        kind, *arguments = command
        if kind == "open":
            self.open(Session(*arguments))
        elif kind == "close":
            self.close(*arguments)
        elif kind == "apply":
            session, operation = arguments
            self.apply(session, operation_from_json(operation))
        else:
            raise ValueError(f"no command {kind!r}")

    # ------------------------------------------------------------ snapshots

    def copy(self) -> dict[str, Any]:
        """A copy of the state. Nodes are immutable, so only some dicts are copied."""
        return {"tree": self.tree.dump(), "sessions": dict(self.sessions)}

    def restore(self, snapshot: Any) -> None:
        self.sessions = {int(number): Session(*known) for number, known in snapshot["sessions"].items()}
        self.tree = Tree.load(
            {
                "zxid": snapshot["zxid"],
                "sessions opened": snapshot["sessions_opened"],
                "ephemerals": self.sessions,
                "nodes": {
                    path: (node_from_json(node), children_created, None)
                    for path, (children_created, *node) in snapshot["nodes"].items()
                },
            }
        )


def snapshot_to_json(copied: dict[str, Any]) -> dict[str, Any]:
    """Encode a copy for ``restore``. This is slow and may run in another thread."""
    tree = copied["tree"]
    return {
        "zxid": tree["zxid"],
        "sessions_opened": tree["sessions opened"],
        "sessions": {
            number: [known.secret, known.timeout_ms] for number, known in copied["sessions"].items()
        },
        "nodes": {
            path: [children_created, *node_to_json(node)]
            for path, (node, children_created, _) in tree["nodes"].items()
        },
    }
