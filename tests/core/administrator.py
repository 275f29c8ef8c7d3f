"""A simulated cluster and its administrator: requests of any kind, answers, and results.

The cluster is the lab's, with its network, its keeper and its crashes; the administrator is one more client
of it, which waits only if the test says so.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.core import keeper_paths
from tidelog.core.assignments import TopicNode
from tidelog.core.broker import Broker
from tidelog.core.keeper_port import Create, Operation
from tidelog.core.messages import Message
from tidelog.core.topic_messages import (
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
)
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.lab.world.world import World
from tidelog.scenario.setup import Setup

ADMIN = "administrator"
M = TypeVar("M")


class Administrator:
    """Brokers 0, 1, …; unless said otherwise broker 0 is the controller."""

    def __init__(self, setup: Setup | None = None) -> None:
        self.events: list[Any] = []
        self.world = World(setup or Setup(brokers=3), self.events.append)
        self.world.clients[ADMIN] = self  # type: ignore[assignment]  # all that the world asks of a client
        self.answers: dict[int, Message] = {}
        self._asked = 0

    # ------------------------------------------------------------ what the world asks of a client

    def replied(self, correlation: int, message: Message) -> None:
        assert correlation not in self.answers, f"answered twice: {message}"
        self.answers[correlation] = message

    def disconnected(self, broker: int) -> None:
        pass

    def wake(self) -> None:
        pass

    # ------------------------------------------------------------ asking

    def send(self, message: Message, to: int | None = None) -> int:
        """Ask a broker, by default the controller. Returns the number under which the answer will be."""
        self._asked += 1
        broker = self.controller if to is None else to
        self.world.network.send("client", ADMIN, broker, ((ADMIN, self._asked), message), self.world.now)
        return self._asked

    def ask(self, message: Message, kind: type[M], to: int | None = None) -> M:
        """Ask and let the cluster work until nothing is in flight."""
        number = self.send(message, to)
        self.world.settle()
        return self.answer(number, kind)

    def answer(self, number: int, kind: type[M]) -> M:
        answer = self.answers[number]
        assert isinstance(answer, kind), answer
        return answer

    def create(self, topic: str, partitions: int = 1, factor: int = 3, **more: Any) -> CreateTopicResponse:
        return self.ask(
            CreateTopicRequest(topic=topic, partitions=partitions, replication_factor=factor, **more),
            CreateTopicResponse,
        )

    def delete(self, topic: str) -> DeleteTopicResponse:
        return self.ask(DeleteTopicRequest(topic=topic), DeleteTopicResponse)

    def tool(self, operation: Operation) -> None:
        """A tool writes to the keeper directly."""
        self.world.quorum.administer(operation)
        self.world.settle()

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        assert self.world.run_until(condition, limit_ms), "it did not come to that"

    # ------------------------------------------------------------ what can be seen

    @property
    def controller(self) -> int:
        node = self.world.quorum.tree.get(keeper_paths.CONTROLLER)
        assert node is not None, "no broker is the controller"
        return int(node.value)

    def core(self, broker: int) -> Broker:
        core = self.world.processes[broker].core
        assert core is not None, f"broker {broker} is down"
        return core

    def value(self, path: str) -> Any:
        node = self.world.quorum.tree.get(path)
        return None if node is None else node.value

    def exists(self, path: str) -> bool:
        return self.world.quorum.tree.get(path) is not None

    def state(self, topic: str, partition: int = 0) -> PartitionState | None:
        return self.world.partition_state(TopicPartition(topic, partition))

    def listed(self, broker: int) -> dict[str, list[int]]:
        """The topics a client of this broker sees, with their partitions."""
        return {topic: sorted(parts) for topic, parts in self.core(broker).metadata.topics.items()}

    def logs(self, broker: int) -> list[TopicPartition]:
        """What is on this broker's disk."""
        return sorted(self.world.processes[broker].storage.partitions())

    def happened(self, kind: type[M]) -> list[M]:
        return [event for event in self.events if isinstance(event, kind)]


def replicas(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def topic_written_by_a_tool(topic: str, assignment: dict[int, tuple[BrokerId, ...]]) -> Create:
    return Create(keeper_paths.topic_path(topic), TopicNode(assignment))
