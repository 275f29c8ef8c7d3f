"""A well-behaved client beside the attack: a process of its own that produces, consumes and measures.

    python -m fuzz.neighbour BOOTSTRAP_SERVERS TOPIC PARTITIONS         # until its standard input ends

To each partition it writes 0, 1, 2, … with acks=all and an idempotent producer, and reads what it wrote. At
the end there is only one right content: every acknowledged number, in order, once, and nothing else. A thread
for each broker asks ApiVersions fifty times a second, and notes how long the slowest answer took: for so long
the broker answered no other client either.

On stdout: a line of JSON now and then, and the last one when it is done.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tidelog.kafka_client.blocking import Client, ClientError, parse_servers
from tidelog.wire.api import Api
from tidelog.wire.messages.api_versions import ApiVersionsRequest

_PACE_SECONDS: Final = 0.01
_TOLD_EVERY_SECONDS: Final = 0.5
_PROBE_EVERY_SECONDS: Final = 0.02
_PROBE_PATIENCE_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 60.0
_FAULTS_SHOWN: Final = 5
_LONG_SECONDS: Final = 2.0
"""A wait that may exceed a limit, and is noted by itself."""
_LONG_NOTED: Final = 200


@dataclass(slots=True)
class Account:
    """What it sent, what it was told, what it read."""

    acknowledged: int = 0
    failed: int = 0
    """Sends that ended with an error: none should."""
    read: int = 0
    missing: int = 0
    """Acknowledged, and not there at the end."""
    faults: list[str] = field(default_factory=list)
    """Records that were foreign, repeated or out of order, and errors of sends; the first few."""
    stall_seconds_max: float = 0.0
    """The longest time without an acknowledgement."""
    stalls: list[tuple[float, float]] = field(default_factory=list)
    """Those that were long: when they began on the monotonic clock, and the seconds; the first few."""
    late_probes: list[tuple[float, float]] = field(default_factory=list)
    """The same of answers to ApiVersions."""
    probes: int = 0
    probe_seconds_max: float = 0.0
    probe_seconds_99: float = 0.0
    probe_failures: list[str] = field(default_factory=list)
    done: bool = False

    @property
    def held(self) -> bool:
        """Everything that was promised is there, and nothing else."""
        return self.done and not (self.failed or self.missing or self.faults)


class Neighbour:
    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._sent = [0] * partitions
        self._acknowledged = [0] * partitions
        self._read = [0] * partitions
        self._last_at = self._next_at = time.monotonic()
        self.account = Account()
        common: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 2}
        self._producer = Producer(
            common
            | {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "delivery.timeout.ms": 120_000,
            }
        )
        self._consumer = Consumer(
            common | {"group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "error"}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def work(self) -> None:
        """Write one record, take what was acknowledged, read what is there."""
        partition = sum(self._sent) % len(self._sent)
        value = b"%d" % self._sent[partition]
        self._sent[partition] += 1
        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        self._next_at = max(self._next_at + _PACE_SECONDS, time.monotonic())
        while (left := self._next_at - time.monotonic()) > 0:
            self._producer.poll(left)
        self._take(self._consumer.consume(1_000, 0.0))
        waited = time.monotonic() - self._last_at
        self.account.stall_seconds_max = max(self.account.stall_seconds_max, waited)

    def finish(self) -> None:
        """Wait for what is still on its way, and read to the end."""
        self._producer.flush(_LAST_SECONDS)
        deadline = time.monotonic() + _LAST_SECONDS
        while sum(self._read) < sum(self._acknowledged) and time.monotonic() < deadline:
            self._take(self._consumer.consume(1_000, 0.2))
        # What came behind the last acknowledged record would be somebody else's.
        self._take(self._consumer.consume(1_000, 0.5))
        self._consumer.close()
        pairs = zip(self._acknowledged, self._read, strict=True)
        self.account.missing = sum(max(told - read, 0) for told, read in pairs)
        self.account.failed = sum(self._sent) - self.account.acknowledged
        self.account.done = True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        waited = now - self._last_at
        self.account.stall_seconds_max = max(self.account.stall_seconds_max, waited)
        if waited > _LONG_SECONDS and len(self.account.stalls) < _LONG_NOTED:
            self.account.stalls.append((self._last_at, waited))
        self._last_at = now
        if error is not None:
            self._fault(f"a send ended with {error.name()}")
            return
        self._acknowledged[message.partition() or 0] += 1
        self.account.acknowledged += 1

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                    self._fault(f"reading: {error.name()}")
                continue
            partition = message.partition() or 0
            expected, self._read[partition] = self._read[partition], self._read[partition] + 1
            self.account.read += 1
            if message.value() != b"%d" % expected:
                self._fault(f"partition {partition}, offset {message.offset()}: {message.value()!r}")

    def _fault(self, text: str) -> None:
        if len(self.account.faults) < _FAULTS_SHOWN:
            self.account.faults.append(text)


class Probe(threading.Thread):
    """Asks one broker the same small question again and again."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True, name=f"probe-{port}")
        self._at = host, port
        self._stopping = threading.Event()
        self.seconds: list[float] = []
        self.late: list[tuple[float, float]] = []
        self.failure = ""

    def run(self) -> None:
        try:
            with Client(*self._at, _PROBE_PATIENCE_SECONDS) as client:
                while not self._stopping.wait(_PROBE_EVERY_SECONDS):
                    began = time.monotonic()
                    client.ask(Api.API_VERSIONS, ApiVersionsRequest())
                    took = time.monotonic() - began
                    self.seconds.append(took)
                    if took > _LONG_SECONDS:
                        self.late.append((began, took))
        except ClientError as error:
            self.failure = str(error)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def _sum_up(account: Account, probes: list[Probe]) -> None:
    seconds = sorted(second for probe in probes for second in probe.seconds)
    account.probes = len(seconds)
    if seconds:
        account.probe_seconds_max = seconds[-1]
        account.probe_seconds_99 = seconds[len(seconds) * 99 // 100]
    late = sorted((each for probe in probes for each in probe.late), key=lambda each: -each[1])
    account.late_probes = late[:_LONG_NOTED]
    account.probe_failures = [probe.failure for probe in probes if probe.failure]


def _tell(account: Account) -> None:
    print(json.dumps(asdict(account)), flush=True)


def main() -> None:
    servers, topic, partitions = sys.argv[1:]
    neighbour = Neighbour(servers, topic, int(partitions))
    probes = [Probe(*endpoint) for endpoint in parse_servers(servers)]
    for probe in probes:
        probe.start()
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    next_told = 0.0
    while not ended.is_set():
        neighbour.work()
        if time.monotonic() >= next_told:
            _tell(neighbour.account)
            next_told = time.monotonic() + _TOLD_EVERY_SECONDS
    for probe in probes:
        probe.stop()
    _sum_up(neighbour.account, probes)
    neighbour.finish()
    _tell(neighbour.account)


if __name__ == "__main__":
    main()
