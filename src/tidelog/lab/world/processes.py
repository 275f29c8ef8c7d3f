"""A broker process on a simulated machine: the core while it runs, the disk that stays when it does not.

What a core asks for becomes messages and timers of the world at once, without an effect (`ProcessOutbox`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.core.broker import Broker
from tidelog.core.keeper_port import Operation
from tidelog.core.messages import Message
from tidelog.core.types import BrokerId, Millis, TopicConfig
from tidelog.faults.places import KEEPER
from tidelog.lab.world.network import CONNECTION_OF
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from tidelog.lab.world.world import World


class SimProcess:
    __slots__ = (
        "_setup",
        "core",
        "id",
        "incarnation",
        "leaving",
        "missed_connections",
        "slept",
        "storage",
        "topic_configs",
    )

    def __init__(self, broker: BrokerId, setup: Setup) -> None:
        self.id = broker
        self._setup = setup
        self.storage = MemoryStorage(sync_each_append=setup.sync_each_append)
        self.topic_configs: dict[str, TopicConfig] = {}
        self.core: Broker | None = None
        """None while the process is down."""
        self.incarnation = 0
        self.leaving = False
        self.slept = False
        self.missed_connections: dict[int, None] = {}

    def start(self, world: World) -> None:
        setup = self._setup
        self.incarnation += 1
        self.storage.recover()
        outbox = ProcessOutbox(world, self.id, self.incarnation)
        self.core = Broker(
            self.id, self.storage, setup.rules, setup.config, guards=setup.guards, outbox=outbox
        )
        for topic, config in self.topic_configs.items():
            self.core.configure_topic(topic, config)

    def kill(self) -> None:
        self.core = None
        self.slept = False
        self.missed_connections.clear()


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
            # It goes back on the connection of its request: to that incarnation or not at all.
            self._network.send(CONNECTION_OF[type(message)], me, target, (me, message), world.now)

    def call_keeper(self, call: int, operation: Operation) -> None:
        me, world = self._me, self._world
        session = world.quorum.connected_session(me)
        if session is not None:
            self._network.send("keeper", me, KEEPER, (session, call, operation), world.now)

    def wake_at(self, at: Millis) -> None:
        self._world.schedule(at, self._me, self._incarnation)
