"""Schedules that were played on clusters of Apache Kafka 4.3.1, compared step by step with what those did.

``tests/recordings`` holds what was recorded: with eligible leader replicas (``-elr``) and with the feature at
level 0 (``-noelr``). The recorded clusters had a controller that never dies: here it is broker 3, without
replicas. Compared are the state in the keeper, every log and its epochs, and what clients were told: each
request goes to the broker that the recording names, whether it leads or not.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lab.stories import Stage, partition, replica, stage

from tidelog.core.events import PartitionStateWritten
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
from tidelog.scenario.clients.metadata import ClientMetadata
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

RECORDINGS = Path(__file__).parents[1] / "recordings"
TP = TopicPartition("t", 0)
HEAD = """
    scenario recorded
    cluster brokers=4 controller=3 replica.lag.time.max.ms=5000 zookeeper.session.timeout.ms=8000{off}
    topic t replicas=0,1,2 min.insync.replicas=2
"""
PRODUCE_MS = 25_000

Step = tuple[str, ...]
"""The commands of one recorded step. ``-> B V acks`` sends the record V to broker B."""

SCHEDULES: dict[str, list[Step]] = {
    "e1": [
        ("-> 0 a all", "advance 1s"),
        ("stop 1", "wait isr 0,2", "-> 0 b all"),
        ("stop 2", "wait isr 0"),
        ("-> 0 c 1", "-> 0 d all", "advance 6s"),
        ("stop 0", "wait leader none"),
        ("restart 2", "advance 2s"),
        ("restart 0", "advance 2s"),
        ("restart 1", "advance 2s"),
        ("-> LEADER z all", "advance 2s"),
    ],
    "e2a": [
        ("-> 0 a all", "advance 1s"),
        ("crash 1", "wait isr 0,2", "-> 0 b all"),
        ("crash 2", "wait isr 0", "-> 0 c 1", "-> 0 d all", "advance 6s"),
        ("crash 0", "wait leader none"),
        ("restart 2", "advance 2s"),
        ("restart 1", "advance 2s"),
        ("restart 0", "advance 4s"),
        ("-> LEADER z all", "advance 2s"),
    ],
    "e3": [
        ("-> 0 a all", "advance 1s"),
        ("pause 1 2", "-> 0 b all", "advance 2s"),
        ("wait isr 0", "answer"),
        ("-> 0 c all", "-> 0 d 1", "advance 6s"),
        ("resume 1 2", "wait isr 0,1,2", "advance 1s"),
    ],
    "e5a": [
        ("-> 0 a all", "advance 1s", "sync 0", "-> 0 b all", "advance 1s"),
        ("stop 1", "wait isr 0,2", "stop 2", "wait isr 0", "-> 0 c 1", "advance 6s"),
        ("power-off 0", "wait leader none"),
        ("restart 0", "advance 2s"),
        ("restart 2", "advance 2s"),
        ("restart 1", "advance 2s"),
        ("-> LEADER z all", "advance 2s"),
    ],
}


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

    def wake(self) -> None:
        pass


class Replay:
    def __init__(self, kind: str) -> None:
        off = " without=eligible_leader_replicas" if kind == "noelr" else ""
        self.stage = stage(HEAD.format(off=off), "elr")
        self.probe = Probe(self.stage)
        self._open: list[tuple[str, int]] = []

    def play(self, step: Step) -> list[tuple[str, ProduceResponse]]:
        """Returns what was told in this step."""
        told = []
        for command in step:
            if command.startswith("->"):
                self._produce(*command.split()[1:])
            elif command == "answer":
                self.stage.world.run_until(lambda: self._open[0][1] in self.probe.answers, PRODUCE_MS)
            else:
                self.stage.do(command)
        for value, number in list(self._open):
            if number in self.probe.answers:
                told.append((value, self.probe.answers[number]))
                self._open.remove((value, number))
        return told

    def _produce(self, broker: str, value: str, acks: str) -> None:
        to = partition(self.stage).leader if broker == "LEADER" else int(broker)
        request = ProduceRequest(
            tp=TP,
            acks=-1 if acks == "all" else int(acks),
            batch=MemoryBatch(value=value),
            timeout_ms=PRODUCE_MS,
        )
        self._open.append((value, self.probe.send(to, request)))
        self.stage.world.run_until(lambda: self._open[-1][1] in self.probe.answers, 1_000)


def the_state(of: Any) -> tuple[Any, ...]:
    return (
        of["leader"],
        of["leader_epoch"],
        of["partition_epoch"],
        sorted(of["isr"]),
        of["elr"],
        of["last_known_elr"],
        of["recovering"],
    )


def state_now(of: Stage) -> tuple[Any, ...]:
    now = partition(of)
    return (
        now.leader,
        now.leader_epoch,
        now.partition_epoch,
        sorted(now.isr),
        list(now.elr),
        list(now.last_known_elr),
        int(now.recovering),
    )


def refused(recorded: Any) -> Step:
    """x was sent only where nobody led: it is not part of the schedule."""
    return tuple(
        f"-> {c['to']} x {c['acks']}" for c in recorded.get("client", []) if c.get("produce") == ["x"]
    )


def as_told(error: ErrorCode) -> str:
    return "NONE" if error is ErrorCode.NONE else f"{error.value} {error.name}"


def check_clients(replay: Replay, told: list[tuple[str, ProduceResponse]], recorded: list[Any]) -> None:
    produced = [c for c in recorded if "produce" in c]
    assert [(value, as_told(answer.error)) for value, answer in told] == [
        (client["produce"][0], client["err"]) for client in produced
    ]
    for (_, answer), client in zip(told, produced, strict=True):
        assert answer.base_offset == client["base_offset"], client
    for client in recorded:
        broker = client.get("consume_from")
        if broker is not None and broker == partition(replay.stage).leader:
            fetched: FetchResponse = replay.probe.ask(
                broker,
                FetchRequest(tp=TP, replica=CONSUMER, offset=0, current_leader_epoch=NO_EPOCH, max_wait_ms=0),
            )
            assert as_told(fetched.error) == client["err"]
            assert fetched.high_watermark == client["hw"]
            assert [batch.value for batch in fetched.batches] == client["sees"]  # type: ignore[attr-defined]


def check_replicas(replay: Replay, recorded: dict[str, Any]) -> None:
    for name, then in recorded.items():
        now = replica(replay.stage, int(name))
        assert [list(record) for record in now.records] == then["log"], f"log of broker {name}"
        assert [list(entry) for entry in now.epochs] == then["epochs"], f"epochs of broker {name}"
        assert (now.process != "down") == then["alive"]
        if now.process == "up":
            request = ListOffsetsRequest(tp=TP, replica=CONSUMER, current_leader_epoch=NO_EPOCH)
            answer: ListOffsetsResponse = replay.probe.ask(int(name), request)
            told = then.get("as_leader", then.get("hw_as_leader"))
            assert (as_told(answer.error) if answer.error else answer.offset) == told, f"broker {name}"


@pytest.mark.parametrize("kind", ["elr", "noelr"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_recorded_schedule(schedule: str, kind: str) -> None:
    """At each step state, logs, epochs and answers are those of Kafka 4.3.1."""
    recording = json.loads((RECORDINGS / f"{schedule}-{kind}.json").read_text())
    replay = Replay(kind)
    for step, recorded in zip(SCHEDULES[schedule], recording["steps"], strict=True):
        told = replay.play((*step, *refused(recorded)))
        assert state_now(replay.stage) == the_state(recorded), recorded["action"]
        check_clients(replay, told, recorded.get("client", []))
        check_replicas(replay, recorded["replicas"])


@pytest.mark.parametrize("kind", ["elr", "noelr"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_write_of_the_controller(schedule: str, kind: str) -> None:
    """The controller writes the states that Kafka's metadata log holds, and no others. (Which of two
    followers that wait joins the ISR first is chance.)"""
    recording = json.loads((RECORDINGS / f"{schedule}-{kind}.json").read_text())
    replay = Replay(kind)
    for step in SCHEDULES[schedule]:
        replay.play(step)
    written = [e.state for e in replay.stage.events if isinstance(e, PartitionStateWritten)]
    assert [
        (s.leader, s.leader_epoch, s.version, len(s.isr), list(s.elr), list(s.last_known_elr), s.recovering)
        for s in written
    ] == [
        (
            then["leader"],
            then["leader_epoch"],
            then["partition_epoch"],
            len(then["isr"]),
            then["elr"],
            then["last_known_elr"],
            bool(then["recovering"]),
        )
        for then in recording["partition_history"]
    ]
    assert all(isinstance(broker, int) for state in written for broker in state.isr)
