"""The keeper that ``tidelog up`` starts: replaces ZooKeeper for clusters on one machine.

It serves the pure ``Tree`` on a TCP port (``protocol``), with a journal so that a restart loses nothing
(``group_commit``, ``journal``). This file owns the sessions: their connections and their time-outs. Its
rules:

* A session lives as long as its client sends something within the time-out, on any connection. The newest
  connection of a session wins; the older one is closed with its unread bytes, so that its requests cannot be
  executed after those of the new one.
* Time-outs count only while this process runs. If it was stopped or had no processor time, all deadlines move
  by that time, because the keeper could not receive anything meanwhile.
* After a restart every known session gets its full time-out to reconnect, as in ZooKeeper.
* Watches belong to a connection and end with it; a client that reconnects fires its pending watches itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.core.keeper_port import Children, Get, Operation, StoredNode, Subtree
from tidelog.core.types import Millis
from tidelog.keeper.embedded.group_commit import GroupCommit
from tidelog.keeper.embedded.journal import SNAPSHOT_AFTER_BYTES, Journal
from tidelog.keeper.embedded.protocol import result_to_json
from tidelog.keeper.embedded.session_connection import SessionConnection
from tidelog.keeper.embedded.state import (
    Command,
    KeeperState,
    Session,
    apply_command,
    close_command,
    open_command,
)
from tidelog.keeper.tree import Notifications
from tidelog.keeper.values import decode, standard_nodes

log = logging.getLogger("tidelog.keeper")


@dataclass(slots=True)
class _Presence:
    """An open session: its deadline, and its connection if there is one."""

    timeout_s: float
    deadline: float
    peer: SessionConnection | None = None
    kept: bool = False
    """The time-out does not end it; only ``expire`` does."""


class EmbeddedKeeper:
    def __init__(
        self,
        data_dir: Path | None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        session_timeout_min_ms: Millis = 500,
        session_timeout_max_ms: Millis = 120_000,
        sessions_max: int = 1000,
        fsync: bool = True,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        """``data_dir`` None: in memory only. Port 0: any free one, see ``port`` once started."""
        self._data_dir = data_dir
        self._host = host
        self.port = port
        self._timeout_min_ms = session_timeout_min_ms
        self._timeout_max_ms = session_timeout_max_ms
        self._sessions_max = sessions_max
        self._fsync = fsync
        self._snapshot_after_bytes = snapshot_after_bytes
        self._tick_s = max(session_timeout_min_ms / 4000, 0.005)
        self._log: Journal | None = None
        self._state = KeeperState()
        self._present: dict[int, _Presence] = {}
        self._opening = 0
        self._peers: dict[SessionConnection, None] = {}
        self._commits: GroupCommit | None = None
        self._server: asyncio.Server | None = None
        self._ticks: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Future[None] | None = None

    # ------------------------------------------------------------ starting and stopping

    async def start(self) -> None:
        """Recover, then listen. Raises ``KeeperStorageError`` or ``OSError`` if that fails."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        try:
            await self._recover_in_thread()
            self._commits = GroupCommit(self._state, self._log, self._failed)
            for number, session in self._state.sessions.items():
                self._await(number, session)
            # Set before serving: `start_serving` may be cancelled while it waits, and `stop` must find the
            # server.
            self._server = await loop.create_server(
                lambda: SessionConnection(self), self._host, self.port, start_serving=False
            )
            await self._server.start_serving()
        except BaseException:
            await self.stop()
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        self._tick(loop.time())

    async def stop(self) -> None:
        """Close the port and every connection. Sessions live on in the log, if there is one."""
        if self._ticks is not None:
            self._ticks.cancel()
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.abort()
        if self._commits is not None:
            await self._commits.stop()
        log, self._log = self._log, None  # `stop` may be called twice, for example after a cancelled start
        if log is not None:
            log.close()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def wait(self) -> None:
        """Wait until the keeper stops. Raises the error if a failure stopped it."""
        if self._stopped is not None:
            await asyncio.shield(self._stopped)

    async def _recover_in_thread(self) -> None:
        """Recover in a thread. A thread cannot be cancelled, so a cancelled start waits for it before closing
        files."""
        recovering = asyncio.ensure_future(asyncio.to_thread(self._recover))
        try:
            await asyncio.shield(recovering)
        except asyncio.CancelledError:
            await asyncio.gather(recovering, return_exceptions=True)
            raise

    def _recover(self) -> None:
        """Runs in a thread, before the keeper accepts connections."""
        if self._data_dir is not None:
            self._log = Journal(
                self._data_dir, fsync=self._fsync, snapshot_after_bytes=self._snapshot_after_bytes
            )
            self._log.recover(self._state.restore, self._state.replay)
        commands = _standard_commands(self._state)
        if self._log is not None and commands:
            self._log.append(commands)

    def _failed(self, error: Exception) -> None:
        """Stop the keeper: log and state may differ after a failed commit."""
        log.error("keeper: stopped, because a commit failed: %s", error)
        if self._ticks is not None:
            self._ticks.cancel()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(error)
            self._stopped.exception()  # avoids a warning if `wait` is never called
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.abort()

    # ------------------------------------------------------------ connections and sessions

    def connected(self, peer: SessionConnection) -> None:
        if len(self._peers) >= 2 * self._sessions_max:
            peer.drop("there are too many connections")
        else:
            self._peers[peer] = None

    def disconnected(self, peer: SessionConnection) -> None:
        self._peers.pop(peer, None)
        presence = self._present.get(peer.session)
        if presence is not None and presence.peer is peer:
            presence.peer = None
            self._state.tree.forget_watches(peer.session)

    def greeted(self, peer: SessionConnection, timeout_ms: Millis, session: int, secret: str) -> None:
        """A client asks for its old session, or for a new one."""
        presence = self._present.get(session)
        known = self._state.sessions.get(session)
        if presence is not None and known is not None and _same(known.secret, secret):
            if presence.peer is not None:
                presence.peer.abort()
            self._attach(peer, session, known, resumed=True)
        elif len(self._state.sessions) + self._opening >= self._sessions_max:
            peer.send({"refused": f"it has {self._sessions_max} sessions and takes no more"})
            peer.finish()
        else:
            timeout_ms = min(max(timeout_ms, self._timeout_min_ms), self._timeout_max_ms)
            fresh = Session(secrets.token_hex(16), timeout_ms)
            self._opening += 1
            self._submit(open_command(fresh), lambda: self._open(peer, fresh))

    def _open(self, peer: SessionConnection, session: Session) -> None:
        self._opening -= 1
        number = self._state.open(session)
        self._await(number, session)
        if not peer.closed:
            self._attach(peer, number, session, resumed=False)

    def _await(self, number: int, session: Session) -> None:
        """Start the time-out of a session."""
        timeout_s = session.timeout_ms / 1000
        self._present[number] = _Presence(timeout_s, asyncio.get_running_loop().time() + timeout_s)

    def _attach(self, peer: SessionConnection, number: int, session: Session, *, resumed: bool) -> None:
        peer.session = number
        self._present[number].peer = peer
        self.heard(peer)
        peer.send(
            {
                "session": number,
                "secret": session.secret,
                "timeout_ms": session.timeout_ms,
                "resumed": resumed,
            }
        )

    def heard(self, peer: SessionConnection) -> None:
        presence = self._present.get(peer.session)
        if presence is not None:
            presence.deadline = asyncio.get_running_loop().time() + presence.timeout_s

    # ------------------------------------------------------------ for callers in the same process

    def node(self, path: str) -> StoredNode | None:
        """The node at a path, with its value decoded."""
        found = self._state.tree.get(path)
        return None if found is None else StoredNode(decode(path, found.value), found.stat)

    def keep(self, session: int) -> None:
        """Suspend the time-out of a session; the caller ends it with ``expire``. For tests and scenarios that
        silence a client and need the exact moment of expiry."""
        if session in self._present:
            self._present[session].kept = True

    def let_go(self, session: int, heard_at: float) -> None:
        """Resume the time-out, counted from ``heard_at`` on the event loop's clock."""
        presence = self._present.get(session)
        if presence is not None:
            presence.kept = False
            presence.deadline = heard_at + presence.timeout_s

    def expire(self, sessions: Iterable[int]) -> None:
        """Expire sessions together: no client can see one expired and another still open."""
        for session in sessions:
            presence = self._present.get(session)
            if presence is not None:
                log.info("keeper: session %d expired after %g s of silence", session, presence.timeout_s)
                if presence.peer is not None:
                    presence.peer.abort()
                self._end(session)

    # ------------------------------------------------------------ ends

    def close_session(self, peer: SessionConnection) -> None:
        """The client ends its session. The answer follows when its ephemeral nodes are deleted."""
        self._end(peer.session, peer)

    def _end(self, session: int, peer: SessionConnection | None = None) -> None:
        if self._present.pop(session, None) is not None:
            self._submit(close_command(session), lambda: self._close(session, peer))

    def _close(self, session: int, peer: SessionConnection | None) -> None:
        self._tell(self._state.close(session))
        if peer is not None:
            peer.send({"closed": 1})
            peer.finish()

    def _tick(self, planned: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = now - planned
        silent = []
        for session, presence in self._present.items():
            if late > self._tick_s:
                presence.deadline += late
            if presence.deadline < now and not presence.kept:
                silent.append(session)
        self.expire(silent)
        self._ticks = loop.call_at(now + self._tick_s, self._tick, now + self._tick_s)

    # ------------------------------------------------------------ operations

    def call(self, peer: SessionConnection, number: int, operation: Operation) -> None:
        self.heard(peer)
        reads = isinstance(operation, (Get, Children, Subtree))
        if isinstance(operation, (Get, Children, Subtree)) and operation.watch:
            peer.watch(operation.path, children=not isinstance(operation, Get))
        if reads and not peer.calls_waiting:
            self._execute(peer, number, operation)
            return
        peer.calls_waiting += 1
        command = None if reads else apply_command(peer.session, operation)

        def in_turn() -> None:
            peer.call_finished()
            if not (reads and peer.closed):
                self._execute(peer, number, operation)

        self._submit(command, in_turn)

    def _execute(self, peer: SessionConnection, number: int, operation: Operation) -> None:
        done = self._state.apply(peer.session, operation)
        if done is not None:
            result, notifications = done
            self._tell(notifications)
            peer.send({"reply": number, "result": result_to_json(operation, result)})

    def _tell(self, notifications: Notifications) -> None:
        for session, watch in notifications:
            presence = self._present.get(session)
            if presence is not None and presence.peer is not None:
                presence.peer.notify(watch)

    def _submit(self, command: Command | None, execute: Callable[[], None]) -> None:
        if self._commits is not None:
            self._commits.submit(command, execute)


def _same(secret: str, claimed: str) -> bool:
    return secrets.compare_digest(secret.encode(), claimed.encode(errors="replace"))


def _standard_commands(state: KeeperState) -> list[Command]:
    """Create the nodes that every cluster needs and that are missing, in a session of the keeper itself."""
    missing = [c for c in standard_nodes(time.time_ns() // 1_000_000) if state.tree.get(c.path) is None]
    if not missing:
        return []
    own = Session(secrets.token_hex(16), 0)
    number = state.open(own)
    commands = [open_command(own)]
    for create in missing:
        state.apply(number, create)
        commands.append(apply_command(number, create))
    state.close(number)
    return [*commands, close_command(number)]
