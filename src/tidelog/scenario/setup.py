"""What a world is made of: brokers in zones, topics, settings. Impossible ones are refused at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from tidelog.core.config import BrokerConfig
from tidelog.core.generations import GENERATIONS, Generation
from tidelog.core.guards import Guards
from tidelog.core.types import Millis, TopicConfig
from tidelog.errors import Refusal

MOST_NODES = 50
"""More would not show more, and take for ever."""


class SetupError(Refusal, ValueError):
    """The described cluster cannot exist. The message says what to change, the rest where that is written."""

    def __init__(self, message: str, setting: str, topic: str = "") -> None:
        super().__init__(message)
        self.setting = setting
        self.topic = topic
        """Empty: a setting of the cluster."""


@dataclass(slots=True, frozen=True)
class TopicSetup:
    name: str
    replicas: tuple[int, ...]
    config: TopicConfig = field(default_factory=TopicConfig)
    isr: tuple[int, ...] | None = None
    """The ISR to start with, where its *order* matters (a cluster with a past); default: the replicas."""
    later: tuple[int, ...] = ()
    """Brokers that steps may move it to: they are shown from the beginning."""

    @property
    def hosts(self) -> tuple[int, ...]:
        """All brokers that ever hold a replica."""
        return (*self.replicas, *self.later)


@dataclass(slots=True, frozen=True)
class Setup:
    brokers: int = 3
    zones: tuple[str, ...] = ()
    """The zone of each broker, and of the keeper member with the same number; default az1, az2, …"""
    keepers: int = 3
    controller: int = 0
    """The broker that starts first and so becomes the first controller."""
    topics: tuple[TopicSetup, ...] = ()
    generation: str = "epoch"
    without: tuple[str, ...] = ()
    """Guards of the generation that are switched off (``core/guards.py``)."""
    config: BrokerConfig = field(default_factory=BrokerConfig)
    session_timeout_ms: Millis = 6_000
    latency_ms: Millis = 1
    sync_each_append: bool = False
    """flush=always: what was appended survives a power cut."""

    @property
    def rules(self) -> Generation:
        return GENERATIONS[self.generation]

    @property
    def guards(self) -> Guards:
        guards = self.rules.guards
        return replace(guards, **dict.fromkeys(self.without, False)) if self.without else guards

    def zone(self, index: int) -> str:
        return self.zones[index % len(self.zones)] if self.zones else f"az{index + 1}"

    def check(self) -> None:
        if self.brokers < 1:
            raise SetupError("a cluster needs at least one broker", "brokers")
        for setting, nodes in (("brokers", self.brokers), ("keepers", self.keepers)):
            if nodes > MOST_NODES:
                most = f"the lab plays clusters of at most {MOST_NODES} brokers and keeper members"
                raise SetupError(most, setting)
        if not 0 <= self.controller < self.brokers:
            raise SetupError(
                f"controller {self.controller} is not one of the brokers 0 to {self.brokers - 1}",
                "controller",
            )
        if self.generation not in GENERATIONS:
            raise SetupError(
                f"unknown generation {self.generation!r}: choose one of {', '.join(GENERATIONS)}",
                "generation",
            )
        self._check_times()
        if self.keepers < 1:
            raise SetupError("a cluster needs at least one keeper member", "keepers")
        for number, topic in enumerate(self.topics):
            if topic.name in [other.name for other in self.topics[:number]]:
                raise SetupError(f"topic {topic.name} is declared twice", "", topic.name)
            self._check_topic(topic)

    def _check_times(self) -> None:
        """A timer that lets no time pass would fire for ever."""
        config = self.config
        for name, value, least in (
            ("replica.lag.time.max.ms", config.replica_lag_time_max_ms, 2),
            ("replica.fetch.wait.max.ms", config.replica_fetch_wait_max_ms, 1),
            ("replica.fetch.backoff.ms", config.replica_fetch_backoff_ms, 1),
            (
                "replica.high.watermark.checkpoint.interval.ms",
                config.high_watermark_checkpoint_interval_ms,
                1,
            ),
            ("zookeeper.session.timeout.ms", self.session_timeout_ms, 1),
        ):
            if value < least:
                raise SetupError(f"{name}={value} lets no time pass: it must be at least {least}", name)

    def _check_topic(self, topic: TopicSetup) -> None:
        replicas, wanted, isr = topic.replicas, topic.config.min_insync_replicas, topic.isr

        def refuse(setting: str, why: str) -> NoReturn:
            raise SetupError(f"topic {topic.name}{why}", setting, topic.name)

        if not replicas:
            refuse("replicas", " has no replicas")
        if len(set(replicas)) != len(replicas):
            refuse("replicas", f" names a replica twice: {list(replicas)}")
        unknown = [broker for broker in replicas if not 0 <= broker < self.brokers]
        if unknown:
            refuse("replicas", f" wants replicas on {unknown}, the brokers are 0 to {self.brokers - 1}")
        if not 1 <= wanted <= len(replicas):
            refuse(
                "min.insync.replicas",
                f": {len(replicas)} replicas can never meet min.insync.replicas={wanted}",
            )
        if isr is not None and len(set(isr)) != len(isr):
            refuse("isr", f" names a member of the ISR twice: {list(isr)}")
        if isr is not None and set(isr) - set(replicas):
            refuse("isr", f": the ISR {list(isr)} is not part of {list(replicas)}")
        if isr is not None and replicas[0] not in isr:
            refuse("isr", f": the first replica leads, so the ISR must contain {replicas[0]}")
