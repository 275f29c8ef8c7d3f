"""What a scenario asks of the cluster that it plays on, be it simulated or made of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.core.types import Millis
from tidelog.faults.places import Channel, Node
from tidelog.faults.testbed import ProcessView, Testbed
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer, ProducerConfig
from tidelog.scenario.conditions import Condition
from tidelog.scenario.line import is_number


class Stage(Testbed, ProcessView, Protocol):
    """A cluster with clients that scenarios can be played on. Durations are those of the scenario."""

    @property
    def clients(self) -> Mapping[str, Producer | Consumer]: ...
    def add_producer(self, name: str, zone: str, config: ProducerConfig) -> Producer: ...
    def add_consumer(self, name: str, zone: str) -> Consumer: ...

    def sync_disk(self, broker: int) -> None: ...
    def zones(self) -> list[str]: ...
    def nodes_in(self, zone: str) -> list[Node]: ...
    def border(self, zone: str) -> list[tuple[Node, Node]]:
        others = [node for other in self.zones() if other != zone for node in self.nodes_in(other)]
        pairs = [(a, b) for a in self.nodes_at(zone) for b in others if a != b]
        return pairs + [(b, a) for a, b in pairs]

    def nodes_at(self, place: str) -> list[Node]:
        """A place is a zone with everything in it, or a single node."""
        if place in self.zones():
            return self.nodes_in(place)
        number = place.removeprefix("broker-")
        return [int(number) if is_number(number) else place]

    # ------------------------------------------------------------ messages
    def deliver(self, channel: Channel) -> bool:
        """One message arrives. False if there is none."""
        ...

    def drop(self, channel: Channel) -> bool: ...

    # ------------------------------------------------------------ time
    def tick(self) -> bool:
        """Time passes to the next timer. False if none is set."""
        ...

    def advance(self, duration: Millis) -> None: ...
    def settle(self) -> None:
        """Everything in flight arrives that is not held one by one."""

    def settle_after_step(self) -> None:
        """The same, unless everything is held."""

    def run_until(self, condition: Callable[[], bool], limit: Millis) -> bool:
        """Time passes until it holds; False if it does not within the limit."""
        ...

    def reaches(self, condition: Condition, limit: Millis) -> bool:
        """Time passes until a condition of the grammar holds; False if it does not within the limit."""
        ...

    # ------------------------------------------------------------ administration
    def configure_topic(self, topic: str, settings: dict[str, str]) -> None: ...
    def reassign(self, topic: str, brokers: tuple[int, ...] | None) -> bool:
        """Move a topic's partition, or cancel its move. False if there is no controller to ask."""
        ...

    def create_topic(self, topic: str, brokers: tuple[int, ...]) -> bool:
        """Ask for a topic of one partition on these brokers. False if there is no controller to ask."""
        ...

    def delete_topic(self, topic: str) -> bool: ...

    def delete_node(self, path: str) -> bool:
        """Delete a node of the keeper, as an administrator's tool does. False if there is none."""
        ...
