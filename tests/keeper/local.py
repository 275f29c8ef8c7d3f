"""A keeper without a network: the tree in the process of the tests.

Values stay Python objects, as in the simulator. Nothing expires on its own; connections break, reconnect and
expire when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.core.keeper_port import Create, Operation
from tidelog.keeper.client import KeeperConnection
from tidelog.keeper.tree import Notifications, Tree
from tidelog.keeper.values import decode, standard_nodes


class LocalKeeper:
    def __init__(self) -> None:
        self.tree = Tree()
        self._connections: dict[int, LocalConnection] = {}
        """By session, while the client is connected."""
        own = self.tree.open_session()
        for node in standard_nodes(now=0):
            self.tree.apply(own, Create(node.path, decode(node.path, node.value)))
        self.tree.close_session(own)

    def connect(self) -> LocalConnection:
        return LocalConnection(self)

    def expire(self, session: int) -> None:
        """What time does to a session that is not heard of."""
        connection = self._connections.pop(session, None)
        self.tell(self.tree.close_session(session))
        if connection is not None:
            connection.break_off()
            connection.reach()

    def reached(self, connection: LocalConnection) -> bool:
        """True if the connection's session is still there; otherwise it gets a new one."""
        resumed = self.tree.has_session(connection.session)
        if not resumed:
            connection.session = self.tree.open_session()
        self._connections[connection.session] = connection
        return resumed

    def lost(self, connection: LocalConnection) -> None:
        self._connections.pop(connection.session, None)
        self.tree.forget_watches(connection.session)

    def tell(self, notifications: Notifications) -> None:
        for session, watch in notifications:
            if session in self._connections:
                self._connections[session].hear(watch.path, watch.children)


class LocalConnection(KeeperConnection):
    """Everything takes a turn of the event loop, so that no call is answered before it returns."""

    def __init__(self, keeper: LocalKeeper) -> None:
        super().__init__()
        self._keeper = keeper
        self._times_broken = 0
        self.session = 0

    def _begin(self) -> None:
        self.reach()

    def reach(self) -> None:
        """The keeper can be reached (again)."""
        self._soon(self._reached)

    def break_off(self) -> None:
        """The keeper cannot be reached until ``reach``. What was on its way is lost."""
        self._times_broken += 1
        self._keeper.lost(self)
        self._broke()

    async def close(self) -> None:
        self._keeper.tell(self._keeper.tree.close_session(self.session))
        self.break_off()

    def _send(self, number: int, operation: Operation) -> None:
        self._soon(lambda: self._execute(number, operation))

    def _reached(self) -> None:
        resumed = self._keeper.reached(self)
        self._opened(self.session, resumed=resumed)

    def _execute(self, number: int, operation: Operation) -> None:
        result, notifications = self._keeper.tree.apply(self.session, operation)
        self._keeper.tell(notifications)
        self._answered(number, operation, result)

    def hear(self, path: str, children: bool) -> None:
        self._fired(path, children)

    def _soon(self, action: Callable[[], None]) -> None:
        connection = self._times_broken

        def unless_broken() -> None:
            if connection == self._times_broken:
                action()

        asyncio.get_running_loop().call_soon(unless_broken)
