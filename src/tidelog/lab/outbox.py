"""How what a broker asks for becomes messages and timers of the world, at once and without an effect made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.core.keeper_port import Operation
from tidelog.core.messages import Message
from tidelog.core.types import BrokerId, Millis
from tidelog.faults.places import KEEPER
from tidelog.lab.network import CONNECTION_OF

if TYPE_CHECKING:
    from tidelog.lab.world import World


class ProcessOutbox:
    """The outbox of one incarnation of a broker."""

    __slots__ = ("_incarnation", "_me", "_network", "_token", "_world")

    def __init__(self, world: World, me: BrokerId, incarnation: int) -> None:
        self._world = world
        self._network = world.network
        self._me = me
        self._incarnation = incarnation
        self._token = (me, incarnation)
        """Where replies to this process go. A reply to an earlier incarnation goes nowhere."""

    def send(self, to: BrokerId, message: Message) -> None:
        connection = CONNECTION_OF[type(message)]
        self._network.send(connection, self._me, to, (self._token, message), self._world.now)

    def reply(self, to: Any, message: Message) -> None:
        target, stamp = to
        me, world = self._me, self._world
        if isinstance(target, str):
            self._network.send("client-reply", me, target, (stamp, message), world.now)
        elif world.processes[target].incarnation == stamp:
            # It goes back on the connection of its request: to that incarnation or to nobody.
            self._network.send(CONNECTION_OF[type(message)], me, target, (me, message), world.now)

    def call_keeper(self, call: int, operation: Operation) -> None:
        me, world = self._me, self._world
        session = world.quorum.connected_session(me)
        if session is not None:
            self._network.send("keeper", me, KEEPER, (session, call, operation), world.now)

    def wake_at(self, at: Millis) -> None:
        self._world.schedule(at, self._me, self._incarnation)
