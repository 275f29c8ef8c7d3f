"""Throttles of moves (KIP-73): set before partitions move, removed when they have.

As Kafka's own tool does it: the replicas that a partition has are throttled as leaders, those that it gets as
followers, and each broker that has a part in it gets the rate for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.kafka_client.admin import Admin, PartitionView, TopicView

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


def throttle(admin: Admin, topic: TopicView, moves: Mapping[int, Sequence[int]], rate: int) -> list[int]:
    """Throttle the moves of a topic, these and those under way, to ``rate`` bytes a second. The view has the
    latter (``Admin.add_moves``). Returns the brokers that have a part in it and run; none if there is nothing
    to copy."""
    leaders: list[str] = []
    followers: list[str] = []
    brokers: set[int] = set()
    for part in topic.partitions:
        sources, targets = _copies(part, moves.get(part.number))
        if targets:
            leaders += [f"{part.number}:{broker}" for broker in sources]
            followers += [f"{part.number}:{broker}" for broker in targets]
            brokers.update(sources, targets)
    if brokers:
        admin.alter(topic.name, {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)})
    running = sorted(brokers & {broker.node_id for broker in admin.metadata([]).brokers})
    for broker in running:
        admin.alter_broker(broker, {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)})
    return running


def _copies(part: PartitionView, target: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """The replicas that a partition had before it moves, and those that it gets."""
    sources = [broker for broker in part.replicas if broker not in part.adding]
    wanted = part.adding if target is None else target
    return sources, [broker for broker in wanted if broker not in sources]


def is_throttled(topic: TopicView) -> bool:
    """The view has the settings of the topic (``Admin.add_settings``)."""
    return bool(topic.settings.keys() & {LEADERS, FOLLOWERS})


def unthrottle(admin: Admin, name: str) -> list[str]:
    """Remove the throttle of a topic. The rates of the brokers stay if other topics are throttled, which are
    returned."""
    admin.alter(name, {}, [LEADERS, FOLLOWERS])
    topics = admin.topics()
    admin.add_settings(topics)
    others = [topic.name for topic in topics if topic.name != name and is_throttled(topic)]
    if not others:
        for broker in admin.metadata([]).brokers:
            admin.alter_broker(broker.node_id, {}, [LEADER_RATE, FOLLOWER_RATE])
    return others
