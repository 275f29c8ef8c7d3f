"""Single requests to single brokers, in the schedules that were played on clusters of Apache Kafka 4.3.1.

``test_recorded_steps`` compares states and logs at each step. Here a client without metadata sends each
request to the broker that the recording names, whether it leads or not, and compares the answers.
"""

import re
from typing import Any

import pytest
from tests.lab.recorded import SCHEDULES, name_of_error, recording_of
from tests.lab.stories import Stage, partition, stage

from tidelog.broker.apis.describe_topic_partitions import described
from tidelog.core.messages import (
    CONSUMER,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.types import NO_EPOCH, TopicPartition
from tidelog.scenario.clients.events import ClientFailure
from tidelog.scenario.clients.metadata import ClientMetadata
from tidelog.storage.memory import MemoryBatch

TP = TopicPartition("t", 0)
PRODUCE_MS = 25_000
ACKS = {"all": -1, "one": 1, "zero": 0}
RECORDED = [name for name, schedule in SCHEDULES.items() if schedule.generation == "elr"]


class Probe:
    """A client that sends single requests to a broker of its choice, and keeps the answers."""

    def __init__(self, of: Stage) -> None:
        self._world = of.world
        self._world.clients["probe"] = self  # type: ignore[assignment]
        self.answers: dict[int, Any] = {}
        self.metadata = ClientMetadata()
        self._sent = 0

    def send(self, broker: int, message: Any) -> int:
        self._sent += 1
        self._world.client_sends("probe", broker, self._sent, message)
        return self._sent

    def ask(self, broker: int, message: Any) -> Any:
        number = self.send(broker, message)
        self._world.run_until(lambda: number in self.answers, PRODUCE_MS + 1_000)
        return self.answers[number]

    def replied(self, correlation: int, reply: Any) -> None:
        self.answers[correlation] = reply

    def disconnected(self, broker: int) -> None:
        pass

    def topic_deleted(self, topic: str) -> None:
        pass

    def wake(self) -> None:
        pass


class Replay:
    def __init__(self, name: str) -> None:
        self.stage = stage(SCHEDULES[name].head, "elr")
        self.probe = Probe(self.stage)
        self._open: list[tuple[str, int]] = []

    def play(self, commands: str) -> list[tuple[str, ProduceResponse]]:
        """Returns what was told in this step."""
        told = []
        for command in map(str.strip, commands.split(";")):
            sends = re.fullmatch(r"(?:produce|send) (one|all|zero)(?:->(\d))? (.*)", command)
            if sends:
                producer, broker, values = sends.groups()
                for value in values.split():
                    self._produce(producer, broker, value)
            elif command == "wait answered":
                self.stage.world.run_until(lambda: self._open[0][1] in self.probe.answers, PRODUCE_MS)
            else:
                self.stage.do(command)
        for value, number in list(self._open):
            if number in self.probe.answers:
                told.append((value, self.probe.answers[number]))
                self._open.remove((value, number))
        return told

    def give_up(self, value: str) -> None:
        """This record was not answered, and an answer that comes later does not count."""
        assert value in dict(self._open)
        self._open = [one for one in self._open if one[0] != value]

    def _produce(self, producer: str, broker: str | None, value: str) -> None:
        to = partition(self.stage).leader if broker is None else int(broker)
        request = ProduceRequest(
            tp=TP,
            acks=ACKS[producer],
            batch=MemoryBatch(value=value),
            timeout_ms=PRODUCE_MS,
        )
        number = self.probe.send(to, request)
        if request.acks == 0:
            return  # it is not answered
        self._open.append((value, number))
        self.stage.world.run_until(lambda: self._open[-1][1] in self.probe.answers, 1_000)


def went_unanswered(client: dict[str, Any]) -> bool:
    return name_of_error(client["err"]) in ClientFailure.__members__


def check_clients(replay: Replay, told: list[tuple[str, ProduceResponse]], recorded: list[Any]) -> None:
    produced = [c for c in recorded if c.get("acks") and not went_unanswered(c)]
    assert [(value, answer.error.name) for value, answer in told] == [
        (client["produce"][0], name_of_error(client["err"])) for client in produced
    ]
    for (_, answer), client in zip(told, produced, strict=True):
        assert answer.base_offset == client["base_offset"], client
    for client in recorded:
        broker = client.get("consume_from")
        if broker is not None:
            request = FetchRequest(TP, CONSUMER, 0, NO_EPOCH, max_wait_ms=0, from_any_replica=True)
            fetched: FetchResponse = replay.probe.ask(broker, request)
            assert fetched.error.name == name_of_error(client["err"])
            assert fetched.high_watermark == client["hw"]
            assert [batch.value for batch in fetched.batches] == client["sees"]  # type: ignore[attr-defined]


def check_replicas(replay: Replay, recorded: dict[str, Any]) -> None:
    for name, then in recorded.items():
        if "as_leader" in then or "hw_as_leader" in then:
            request = ListOffsetsRequest(tp=TP, replica=CONSUMER, current_leader_epoch=NO_EPOCH)
            answer: ListOffsetsResponse = replay.probe.ask(int(name), request)
            found = answer.error.name if answer.error else answer.offset
            told = name_of_error(then["as_leader"]) if "as_leader" in then else then["hw_as_leader"]
            assert found == told, f"broker {name}"


def check_described(replay: Replay, recorded: dict[str, Any]) -> None:
    """What DescribeTopicPartitions tells of the partition."""
    then = recorded.get("described_by")
    if then is None:
        return  # there was no broker to ask
    core = replay.stage.core(then["broker"])
    partition = core.metadata.get(TP)
    assert partition is not None
    told = described(core.metadata, partition, tracked=True)
    assert {
        "broker": then["broker"],
        "leader": told.leader_id,
        "leader_epoch": told.leader_epoch,
        "isr": told.isr_nodes,
        "elr": told.eligible_leader_replicas,
        "last_known_elr": told.last_known_elr,
    } == then


@pytest.mark.parametrize("name", RECORDED)
def test_answers_of_recorded_schedule(name: str) -> None:
    """At each step every broker answers produce, fetch, list-offsets and describe-topic-partitions as Kafka
    4.3.1 does."""
    replay = Replay(name)
    for commands, recorded in zip(SCHEDULES[name].steps, recording_of(name)["steps"], strict=True):
        told = replay.play(commands)
        clients = recorded.get("client", [])
        for client in clients:
            if went_unanswered(client):
                replay.give_up(*client["produce"])
        check_clients(replay, told, clients)
        check_replicas(replay, recorded["replicas"])
        check_described(replay, recorded)
