"""How clients see the cluster, as real ones do: they ask any broker in reach and cache what it says.

A client sends to the leader it believes in until an error or a time-out makes it ask again, and it asks
whichever broker it can reach, which may be just as wrong.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.core.messages import Message, MetadataResponse
from tidelog.core.types import NO_EPOCH, NO_LEADER, LeaderEpoch, Millis, TopicPartition
from tidelog.scenario.clients.events import ClientEvent


class ClientHost(Protocol):
    """What a client may ask of the world it lives in."""

    now: Millis

    def can_connect(self, client: str, broker: int) -> bool: ...
    def broker_ids(self) -> tuple[int, ...]: ...
    def zone_of(self, node: int | str) -> str: ...
    def client_sends(self, client: str, broker: int, correlation: int, message: Message) -> None: ...
    def wake_client(self, client: str, at: Millis) -> None: ...
    def client_observed(self, observation: ClientEvent) -> None: ...


NO_ONE = (NO_LEADER, NO_EPOCH)


class ClientMetadata:
    """A client's cached view: who leads, according to the broker asked last."""

    __slots__ = ("_nearest", "leaders", "requested")

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, tuple[int, LeaderEpoch]] = {}
        self.requested = False
        self._nearest: list[int] | None = None

    def choose(self, client: str, world: ClientHost) -> int | None:
        """The first broker in reach, of the own zone if there is one."""
        if self._nearest is None:
            home = world.zone_of(client)
            self._nearest = sorted(world.broker_ids(), key=lambda broker: world.zone_of(broker) != home)
        for broker in self._nearest:
            if world.can_connect(client, broker):
                return broker
        return None

    def forget(self, topic: str) -> None:
        self.leaders = {tp: leader for tp, leader in self.leaders.items() if tp.topic != topic}

    def learn(self, response: MetadataResponse) -> None:
        self.requested = False
        for tp, state in response.partitions.items():
            self.leaders[tp] = (state.leader, state.leader_epoch)
