"""Which brokers hold the replicas of a topic, and what changes while a partition is reassigned (KIP-455).

While a partition moves, its replica list holds both ends of the move: first the target in its order of
preference, then the replicas that will be removed. ``adding`` and ``removing`` are the difference. So code
that reads only the list (elections, LeaderAndIsr, clients) needs to know nothing of the move, and a new
controller finds everything in the topic's node.
"""

from __future__ import annotations

from dataclasses import field, replace

from tidelog.core.types import NO_TOPIC_ID, BrokerId, TopicId, immutable

Brokers = tuple[BrokerId, ...]

Assignment = dict[int, Brokers]
"""The replicas of each partition of a topic, in order of preference."""


@immutable
class Reassignment:
    """A move that is under way."""

    adding: Brokers = ()
    removing: Brokers = ()

    def __bool__(self) -> bool:
        return bool(self.adding or self.removing)

    def target(self, replicas: Brokers) -> Brokers:
        """The replicas after the move."""
        return tuple(broker for broker in replicas if broker not in self.removing)

    def origin(self, replicas: Brokers) -> Brokers:
        """The replicas if the move is cancelled. As in Kafka, those that are in the target too come first."""
        return tuple(broker for broker in replicas if broker not in self.adding)


NOT_MOVING = Reassignment()


def reassigned(replicas: Brokers, move: Reassignment, target: Brokers) -> tuple[Brokers, Reassignment]:
    """The replica list and the move, if the partition is to have the replicas ``target``. A move that is
    under way is replaced."""
    origin = move.origin(replicas)
    everything = (*target, *(broker for broker in origin if broker not in target))
    adding = tuple(broker for broker in everything if broker not in origin)
    removing = tuple(broker for broker in everything if broker not in target)
    return everything, Reassignment(adding, removing)


@immutable
class TopicNode:
    """What the keeper holds at ``/brokers/topics/T``."""

    partitions: Assignment
    moves: dict[int, Reassignment] = field(default_factory=dict)
    """The partitions that are being reassigned."""
    topic_id: TopicId = NO_TOPIC_ID

    def moved(self, partition: int, replicas: Brokers, move: Reassignment) -> TopicNode:
        """With other replicas of one partition."""
        moves = {number: other for number, other in self.moves.items() if number != partition}
        if move:
            moves[partition] = move
        return replace(self, partitions={**self.partitions, partition: replicas}, moves=moves)

    def extended(self, partitions: Assignment) -> TopicNode:
        """With more partitions."""
        return replace(self, partitions={**self.partitions, **partitions})
