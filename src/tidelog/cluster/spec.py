"""What a cluster is to be: how many brokers, under which rules, joined how, with which settings.

A profile is a set of defaults other than Kafka's. `UP` is for a cluster that a person or a program uses:
`tidelog up`, notebooks. `TRIAL` is for one that faults are done to: a broker counts as started once it is
registered, because a fault may keep the controller from it, and brokers do nothing unasked. `TEST` is for a
cluster in a test suite: faults are done to it, clients use it, and every time-out is short, because a test
waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from os import fspath
from pathlib import Path
from typing import Any, Final, Self

from tidelog.errors import unknown
from tidelog.settings.broker import BROKER
from tidelog.settings.ignored import is_ignored
from tidelog.settings.table import SettingsError

EMBEDDED: Final = "embedded"
DIRECT: Final = "direct"
RELAYS: Final = "relays"
NETNS: Final = "netns"
NETWORKS: Final = (DIRECT, RELAYS, NETNS)

OWN_NAMES: Final = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir")
"""Settings in which brokers differ: one value for all makes no sense."""
KEEPER_NAMES: Final = ("zookeeper.connect", "tidelog.keeper")


class Profile(Enum):
    UP = "up"
    TRIAL = "trial"
    TEST = "test"


# A controlled shutdown in which no controller answers ends before `stop` loses its patience.
_DEFAULTS: Final = {
    "controlled.shutdown.retry.backoff.ms": "200",
    "controller.socket.timeout.ms": "5000",
    "tidelog.metrics.port": "0",
}
_DEFAULTS_OF: Final = {
    # With sessions of four seconds, the shortest that a ZooKeeper grants by default, a dead broker's
    # partitions are soon led by others. A handful of brokers has no use for 50 partitions of positions, and
    # followers name each of them in every fetch.
    Profile.UP: {
        "zookeeper.session.timeout.ms": "4000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "10",
    },
    Profile.TRIAL: {
        "replica.fetch.backoff.ms": "200",
        "replica.fetch.wait.max.ms": "200",
        # A broker that is started while the keeper is away waits for it.
        "zookeeper.connection.timeout.ms": "30000",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.num.partitions": "1",  # consumers of a trial only ask for a coordinator
    },
    Profile.TEST: {
        # Shorter sessions expire by themselves on a busy machine.
        "zookeeper.session.timeout.ms": "1500",
        "zookeeper.connection.timeout.ms": "30000",
        "replica.lag.time.max.ms": "3000",
        "replica.fetch.backoff.ms": "100",
        "replica.fetch.wait.max.ms": "200",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "3",
        "log.retention.check.interval.ms": "200",
        "auto.leader.rebalance.enable": "false",  # leaders change when a test says so
    },
}
_REPLICATION: Final = ("default.replication.factor", "offsets.topic.replication.factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Raises `SettingsError` if no cluster could be like that. Brokers have the ids 1 to N."""

    brokers: int = 3
    generation: str = "epoch"
    keeper: str = EMBEDDED
    """`embedded`, or `zookeeper://host:port,…/path`."""
    zones: tuple[str, ...] = ()
    """Where brokers are, in turn; empty: in no zone."""
    port: int = 0
    """Of the first broker, the others have the next ones; 0: any free ports."""
    network: str = DIRECT
    """How the processes are joined: `direct`, `relays` or `netns`. Links can be cut in the last two."""
    slow_disks: bool = False
    """Whether disks can be made slow, for which every sync is asked about."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of every broker, by Kafka's names; values may be texts, numbers, booleans and paths."""
    profile: Profile = Profile.UP

    @classmethod
    def for_tests(cls, *, brokers: int | str = 3, **given: Any) -> Self:
        """A cluster in which every fault can be done, with short time-outs. `given` are fields of this class.
        Raises `Refusal`."""
        for name in given:
            if name not in cls.__slots__:
                raise unknown("setting of a cluster", name, cls.__slots__)
        for name in given.get("settings", ()):
            if name not in BROKER and not is_ignored(name):
                raise unknown("setting", name, tuple(BROKER), listed_by="tidelog broker --settings")
        try:
            count = int(brokers)
        except ValueError:
            raise SettingsError(f"brokers={brokers}: give a number") from None
        chosen: dict[str, Any] = {
            "zones": tuple(f"az{number}" for number in range(1, min(3, count) + 1)),
            "network": RELAYS,
            "slow_disks": True,
            "profile": Profile.TEST,
        }
        return cls(brokers=count, **chosen | given)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", as_texts(self.settings))
        if self.network not in NETWORKS:
            raise unknown("network", self.network, NETWORKS)
        if self.brokers < 1:
            raise SettingsError(f"a cluster of {self.brokers} brokers: give at least 1")
        if self.port and self.port + self.brokers - 1 > 65535:
            raise SettingsError(
                f"port {self.port} leaves no room for {self.brokers} brokers: choose a smaller one"
            )
        for name in (*OWN_NAMES, *KEEPER_NAMES):
            if name in self.settings:
                raise SettingsError(f"{name}: each broker of a cluster gets its own, leave it out")

    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    def zone_of(self, broker: int) -> str:
        return self.zones[(broker - 1) % len(self.zones)] if self.zones else ""

    def zones_of_brokers(self) -> dict[int, str]:
        return {broker: self.zone_of(broker) for broker in self.broker_ids()}

    def port_of(self, broker: int) -> int:
        return self.port and self.port + broker - 1

    def shared_settings(self) -> dict[str, str]:
        """What all brokers have in common."""
        replicas = dict.fromkeys(_REPLICATION, str(min(3, self.brokers)))
        rules = {"tidelog.generation": self.generation}
        return {**_DEFAULTS, **_DEFAULTS_OF[self.profile], **replicas, **rules, **self.settings}


def as_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as a properties file has them. Raises `SettingsError`."""
    return {name: _as_text(name, value) for name, value in settings.items()}


def _as_text(name: str, value: object) -> str:
    """A setting as a properties file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | Path):
        return fspath(value) if isinstance(value, Path) else str(value)
    raise SettingsError(f"{name}={value!r}: give a text, a number, a boolean or a path")
