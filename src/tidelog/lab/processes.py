"""A broker process on a simulated machine: the core while it runs, the disk that stays when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.broker import Broker
from tidelog.core.types import BrokerId, TopicConfig
from tidelog.lab.outbox import ProcessOutbox
from tidelog.lab.setup import Setup
from tidelog.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from tidelog.lab.world import World


class BrokerProcess:
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
