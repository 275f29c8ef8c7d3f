"""The nouns of replication: ids, offsets, epochs, and the state of a partition as the keeper stores it.

Values never change after their creation (`immutable`). For the type checker they are frozen dataclasses. At
run time that is not enforced, because it is slow: a frozen dataclass sets each attribute through
``object.__setattr__`` and takes three to four times as long to create, and the simulator creates some 130 of
them in a trial of a few milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def immutable(cls: type[T]) -> type[T]:
    """Make a class a slotted dataclass, equal and hashed by its fields. Instances must not be changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


BrokerId = NewType("BrokerId", int)

# Three counters that are all called an epoch, side by side in most messages. Type checking tells them apart.
LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaders of a partition. Each record batch carries that of the leader that appended it."""
ControllerEpoch = NewType("ControllerEpoch", int)
"""Counts the controllers of the cluster: brokers refuse requests of an earlier one."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with each registration of a broker: tells a process from the one before its restart (KIP-903)."""

Offset = int
"""An alias: most offsets are results of arithmetic, and a NewType costs a call for each result."""
Millis = int

TopicId = NewType("TopicId", str)
"""Tells a topic from an earlier one of the same name (KIP-516): 16 bytes in the base64 of URLs, as Kafka
shows and stores them. To the rules it is just a name."""

NO_LEADER = BrokerId(-1)
LEADER_DURING_DELETION = BrokerId(-2)
"""Only in messages, never stored: the topic is being deleted."""
FIRST_EPOCH = LeaderEpoch(0)
NO_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_TOPIC_ID = TopicId("")
"""Of topics that were created before there were ids, until the controller gives them one."""
UNKNOWN_OFFSET: Offset = -1
NO_PRODUCER = -1


class InvariantViolation(Exception):
    """The core reached a state that its own rules exclude. Never caught inside the core."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, frozen=True)
class BrokerEndpoint:
    """The address of a broker for clients and other brokers, as registered in the keeper."""

    host: str
    port: int
    rack: str | None = None
    previous_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """The epoch of its previous registration, if the process lives on or was shut down cleanly. Only under
    ``elr``."""

    def is_at(self, other: BrokerEndpoint | None) -> bool:
        """Whether both have the same address."""
        return other is not None and (self.host, self.port) == (other.host, other.port)


@immutable
class PartitionState:
    """What the keeper holds at ``/brokers/topics/T/partitions/P/state``.

    ``version`` is the node's version in the keeper: a writer must pass the version that it read. Kafka in
    KRaft mode calls the same number the partition epoch.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    version: int = 0
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas (KIP-966): outside the ISR, with every committed record. Ascending."""
    last_known_elr: tuple[BrokerId, ...] = ()
    """The last leader, while the ISR is empty. Kafka reserves the field for more, hence its name."""
    recovering: bool = False
    """The leader was elected uncleanly (KIP-704) and has not changed the ISR since."""


@immutable
class TopicConfig:
    """The settings of a topic that replication uses (Kafka's names in ``config.py``)."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
