"""Brokers as real processes: alone, from a properties file, and what a test asks of a running cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.cluster.cluster import Cluster
from tidelog.evidence.journals.event_files import read_events
from tidelog.kafka_client.admin import Admin, PartitionView
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

Answer = TypeVar("Answer")

_BROKER, _DYNAMIC_BROKER_CONFIG = 4, 2


def eventually(check: Callable[[], Answer], what: str = "") -> Answer:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := check()):
        assert time.monotonic() < deadline, f"it does not become true: {what} (last: {answer!r})"
        time.sleep(0.02)
    return answer


# ---------------------------------------------------------------- one broker


def properties(path: Path, settings: Mapping[str, str | int | Path]) -> Path:
    """A properties file with these settings."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    return path


def command(file: Path) -> list[str]:
    return [sys.executable, "-m", "tidelog.broker", str(file)]


class Starter:
    """Starts brokers that are expected to end by themselves, from one process that has loaded their code:
    there are many ways to be refused."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.broker.forkserver", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control = ours
        self._said = ours.makefile("r", encoding="utf-8")

    def run(self, file: Path) -> subprocess.CompletedProcess[str]:
        """What became of a broker with this file, and what it said."""
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            reading, writing = os.pipe()
            descriptors = [reading, out.fileno(), err.fileno()]
            socket.send_fds(self._control, [json.dumps(str(file)).encode()], descriptors)
            said = [json.loads(self._said.readline()) for _ in ("started", "ended")]
            os.close(reading)
            os.close(writing)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([file], said[1]["code"], out.read(), err.read())

    def refusal(self, file: Path) -> str:
        """The one line with which a broker refuses to start: nothing else may be said, and the code is 2."""
        done = self.run(file)
        assert done.returncode == 2, done
        assert done.stdout == ""
        said = done.stderr.splitlines()
        assert len(said) == 1, done.stderr
        return said[0]

    def close(self) -> None:
        self._said.close()
        self._control.close()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def started(file: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """A broker that serves; killed at the end if it has not ended by then. `before` comes first on the
    command line."""
    process = subprocess.Popen(
        [*before, *command(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def serving_port(process: subprocess.Popen[str]) -> int:
    """Where it serves, once it says so."""
    registered, serving = registered_port(process), _said_port(process, "serving")
    assert registered == serving
    return serving


def registered_port(process: subprocess.Popen[str]) -> int:
    """Where it will serve, once the cluster can know of it."""
    return _said_port(process, "registered")


def _said_port(process: subprocess.Popen[str], state: str) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"{state} "), line
    return int(dict(word.split("=") for word in line.split()[1:])["port"])


# ---------------------------------------------------------------- what brokers say


@dataclass
class Lines:
    """What brokers log, to be passed to a cluster as `on_line`."""

    said: list[tuple[int, str]] = field(default_factory=list)

    def __call__(self, number: int, line: str) -> None:
        self.said.append((number, line))

    def with_words(self, *words: str) -> list[str]:
        """The lines that have all of these words in them."""
        return [line for _, line in self.said if all(word in line for word in words)]

    def only(self, *words: str) -> str:
        """The one line that has these words in it, once it has been said."""
        eventually(lambda: self.with_words(*words), f"a line with {words}")
        (line,) = self.with_words(*words)
        return line


def without_tracebacks(lines: Iterable[str]) -> None:
    said = list(lines)
    found = [n for n, line in enumerate(said) if "Traceback (most" in line or " CRITICAL " in line]
    assert not found, "\n".join(said[found[0] - 3 : found[0] + 40])


def events(folder: Path) -> list[dict[str, Any]]:
    """What all brokers recorded so far, in the order of time."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("**/*.jsonl")):
        rows += read_events(path)
    return sorted(rows, key=lambda row: (row["time_ms"], row["broker"], row["sequence"]))


# ---------------------------------------------------------------- topics of a cluster


def create(
    cluster: Cluster, topic: str, *, partitions: int = 1, replicas: int = -1, **settings: str | int
) -> None:
    """Create a topic and wait until every broker knows its leaders."""
    given = {name.replace("_", "."): str(value) for name, value in settings.items()}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create(topic, partitions=partitions, replicas=replicas, settings=given)
    eventually(lambda: all(_knows(cluster, number, topic, partitions) for number in cluster.pids), topic)


def _knows(cluster: Cluster, number: int, topic: str, partitions: int) -> bool:
    parts = view(cluster, number, topic)
    return len(parts) == partitions and all(part.leader >= 0 for part in parts)


def address(cluster: Cluster, number: int) -> tuple[str, int]:
    broker = next(broker for broker in cluster.brokers if broker.id == number)
    return broker.host, broker.port


def view(cluster: Cluster, number: int, topic: str) -> list[PartitionView]:
    """The partitions of a topic as one broker sees them; none if it does not answer or does not know."""
    return known_at(address(cluster, number), topic)


def known_at(where: tuple[str, int], topic: str) -> list[PartitionView]:
    try:
        with Admin("{}:{}".format(*where)) as admin:
            return admin.topics([topic])[0].partitions
    except ClientError:
        return []


def set_at_run_time(where: tuple[str, int], number: int) -> set[str]:
    """The settings, as `name=value`, that were given to this broker while it ran."""
    resource = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(number), configuration_keys=None
    )
    with Client(*where) as client:
        answer = client.ask(Api.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
    entries = answer.results[0].configs
    return {
        f"{entry.name}={entry.value}" for entry in entries if entry.config_source == _DYNAMIC_BROKER_CONFIG
    }


def partition(cluster: Cluster, topic: str) -> PartitionView:
    """Partition 0 as the first broker that runs sees it, once it does."""
    return eventually(lambda: view(cluster, min(cluster.pids), topic), topic)[0]


# ---------------------------------------------------------------- clients

QUIET = {"log_level": 0}


def produce(cluster: Cluster, topic: str, values: Iterable[str], **settings: Any) -> list[str]:
    """Send values with acks=all, one after the other in flight; returns those that were not acknowledged."""
    failed = []
    config = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, **QUIET}
    producer = Producer(config | settings)
    for value in values:

        def delivered(error: Any, _message: Any, value: str = value) -> None:
            if error is not None:
                failed.append(f"{value}: {error}")

        producer.produce(topic, value, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return failed


def consume(cluster: Cluster, topic: str, count: int, *, start: int = 0) -> list[tuple[int, str]]:
    """The first records of partition 0 from `start` on: offset and value."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    read: list[tuple[int, str]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(read) < count:
            assert time.monotonic() < deadline, f"{len(read)} of {count} records: {read[-3:]}"
            for message in consumer.consume(count - len(read), timeout=0.2):
                if message.error() is None:
                    read.append((message.offset() or 0, (message.value() or b"").decode()))
    finally:
        consumer.close()
    return read


# ---------------------------------------------------------------- logs on disk


def log_folder(cluster: Cluster, number: int, topic: str) -> Path:
    return cluster.data_dir / f"broker-{number}" / f"{topic}-0"


def log_bytes(cluster: Cluster, number: int, topic: str) -> bytes:
    """Everything in the segments of a broker's log of partition 0. They change while this looks; a segment
    that goes meanwhile is left out."""
    parts = []
    for path in sorted(log_folder(cluster, number, topic).glob("*.log")):
        with suppress(FileNotFoundError):
            parts.append(path.read_bytes())
    return b"".join(parts)


def wait_until_equal(cluster: Cluster, topic: str) -> None:
    """Until the logs of all brokers that run are the same, byte for byte."""

    def equal() -> bool:
        first, *others = (log_bytes(cluster, number, topic) for number in cluster.pids)
        return bool(first) and all(log == first for log in others)

    eventually(equal, f"equal logs of {topic}")
