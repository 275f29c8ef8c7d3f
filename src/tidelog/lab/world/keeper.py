"""The simulated keeper: one tree, three members in zones, sessions that expire on the majority's clock.

The members agree by construction (ZAB is not what this lab is about); what is modelled is who can *reach*
an agreement. A member serves only while it reaches the leading member and that one reaches a majority. A
broker is connected while it reaches a serving member. A session of a disconnected broker expires after its
time-out, and only while there is a majority to say so; when a majority forms again, sessions get their full
time again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.core.keeper_port import KeeperReply, Operation, SessionResumed, SessionStarted, WatchFired
from tidelog.core.types import Millis
from tidelog.keeper.tree import Notifications, Tree
from tidelog.scenario.keeper_members import Ensemble, Linked

KeeperNotice = KeeperReply | WatchFired | SessionStarted | SessionResumed


@dataclass(slots=True)
class _Session:
    """A broker's relation to the keeper."""

    id: int
    connected: bool = True
    """The broker renews it: the process runs and reaches a serving member."""
    broken: bool = False
    """The connection itself broke: calls and answers may be lost, unlike when the process merely sleeps."""
    expires_at: Millis | None = None
    missed: list[WatchFired | SessionStarted] = field(default_factory=list)
    """Notices for a broker that was not connected: the keeper sends them when it is."""


class Quorum(Ensemble):
    __slots__ = ("_by_session", "_notify", "_schedule", "_sessions", "_timeout", "tree")

    def __init__(
        self,
        members: tuple[str, ...],
        session_timeout_ms: Millis,
        notify: Callable[[int, KeeperNotice], None],
        schedule: Callable[[Millis, int], None],
    ) -> None:
        """``notify`` sends a notice to a broker, ``schedule`` asks for ``expire`` to be called in time."""
        super().__init__(members)
        self.tree = Tree()
        self._timeout = session_timeout_ms
        self._notify = notify
        self._schedule = schedule
        self._sessions: dict[int, _Session] = {}
        self._by_session: dict[int, int] = {}

    def update(self, linked: Linked, now: Millis) -> None:
        """The topology changed. A majority that forms again gives sessions their full time again."""
        if self.update_leader(linked):
            for broker, session in self._sessions.items():
                if not session.connected:
                    self._start_expiry(broker, session, now)

    # ------------------------------------------------------------ sessions

    def is_connected(self, broker: int) -> bool:
        session = self._sessions.get(broker)
        return session is not None and session.connected

    def expire_after_restart(self, broker: int) -> None:
        """A new process takes a broker's place. The old session is not renewed again: let it run out
        under a number of its own."""
        former = self._sessions.pop(broker, None)
        if former is not None and self.tree.has_session(former.id):
            ghost = -former.id
            self._sessions[ghost] = former
            self._by_session[former.id] = ghost
            if former.expires_at is not None:
                self._schedule(former.expires_at, ghost)

    def _start_session(self, broker: int) -> None:
        id_ = self.tree.open_session()
        self._sessions[broker] = _Session(id_)
        self._by_session[id_] = broker
        self._notify(broker, SessionStarted(id_))

    def disconnect(self, broker: int, now: Millis) -> None:
        """The session is not renewed from now on."""
        session = self._sessions.get(broker)
        if session is not None and session.connected:
            session.connected = False
            if self.leader is not None:
                self._start_expiry(broker, session, now)

    def break_connection(self, broker: int, now: Millis) -> bool:
        """No serving member is in reach any more. False if that was so before."""
        session = self._sessions.get(broker)
        if session is None or session.broken:
            return False
        session.broken = True
        self.disconnect(broker, now)
        return True

    def _start_expiry(self, broker: int, session: _Session, now: Millis) -> None:
        session.expires_at = now + self._timeout
        self._schedule(session.expires_at, broker)

    def reconnect(self, broker: int) -> None:
        """The broker reaches a serving member: again in time, too late, or for the first time."""
        session = self._sessions.get(broker)
        if session is not None and session.connected:
            return
        if session is not None and self.tree.has_session(session.id):
            self._revive(broker, session)
            if session.broken:
                session.broken = False
                self._notify(broker, SessionResumed())
        else:
            self._start_session(broker)

    def _revive(self, broker: int, session: _Session) -> None:
        session.connected = True
        session.expires_at = None
        missed, session.missed = session.missed, []
        for notice in missed:
            self._notify(broker, notice)

    def missed(self, broker: int, notice: WatchFired | SessionStarted) -> None:
        """This notice was on its way when the connection broke."""
        session = self._sessions.get(broker)
        if session is not None:
            session.missed.append(notice)

    def expire(self, broker: int, now: Millis) -> bool:
        """The time of a disconnected session may have come. True if it expired."""
        session = self._sessions.get(broker)
        due = session is not None and not session.connected and session.expires_at is not None
        if not due or session is None or self.leader is None or now < (session.expires_at or 0):
            return False
        session.expires_at = None
        return self._close(session)

    def end_session(self, broker: int) -> None:
        """A process leaves in an orderly way and closes its session."""
        session = self._sessions.pop(broker, None)
        if session is not None:
            self._close(session)

    def _close(self, session: _Session) -> bool:
        if not self.tree.has_session(session.id):
            return False
        self._by_session.pop(session.id, None)
        self._tell(self.tree.close_session(session.id))
        return True

    # ------------------------------------------------------------ calls

    def connected_session(self, broker: int) -> int | None:
        """The session in which a broker's calls are made; None if it cannot make any now."""
        session = self._sessions.get(broker)
        return session.id if session is not None and session.connected else None

    def call(self, broker: int, session: int, call: int, operation: Operation) -> None:
        """Execute a call that was made in ``session``: of a process that may have been replaced since."""
        if not self.tree.has_session(session):
            return  # the session ended while the call was on its way
        result, notifications = self.tree.apply(session, operation)
        if notifications:
            self._tell(notifications)
        current = self._sessions.get(broker)
        if current is not None and current.id == session:
            self._notify(broker, KeeperReply(call, result))

    def administer(self, operation: Operation) -> None:
        """A write by an administrator's tool, outside any broker's session."""
        session = self.tree.open_session()
        _, notifications = self.tree.apply(session, operation)
        self._tell(notifications)
        self._tell(self.tree.close_session(session))

    def _tell(self, notifications: Notifications) -> None:
        for session, watch in notifications:
            broker = self._by_session.get(session)
            if broker is None or broker < 0:
                continue
            if self._sessions[broker].connected:
                self._notify(broker, watch)
            else:
                self._sessions[broker].missed.append(watch)
