"""A real Apache Kafka 2.7.1 on this machine: N brokers and a ZooKeeper, on loopback.

The last release whose message versions and log lines many clusters still have. It has the methods of
`bench.apache_kafka.ApacheKafka` that the recordings for tests use. Its ZooKeeper is the one that it brings.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.apache_kafka import Node
from bench.jars import java, old_kafka_jars
from bench.processes import LOOPBACK, Unavailable, accepts, eventually, free_ports, spawn, stop

# The layout and the loggers of config/log4j.properties, in the three files that Kafka writes.
_LOGGING = """\
log4j.rootLogger=INFO, server
log4j.logger.kafka.controller=INFO, controller
log4j.additivity.kafka.controller=false
log4j.logger.state.change.logger=INFO, state
log4j.additivity.state.change.logger=false
log4j.logger.org.apache.zookeeper=WARN
"""
_APPENDER = """\
log4j.appender.{0}=org.apache.log4j.FileAppender
log4j.appender.{0}.File={1}
log4j.appender.{0}.layout=org.apache.log4j.PatternLayout
log4j.appender.{0}.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_LOGS = {"server": "server.log", "controller": "controller.log", "state": "state-change.log"}


class OldApacheKafka:
    """Started by `with`. Broker ids are 1 to N."""

    def __init__(self, directory: Path, brokers: int, settings: Mapping[str, str]) -> None:
        self._classes = f"{old_kafka_jars()}/*"
        self._directory = directory
        self._settings = dict(settings)
        *ports, self._keeper_port = free_ports(brokers + 1)
        self.nodes = {
            number: Node(number, port, -1, directory / f"broker-{number}")
            for number, port in enumerate(ports, start=1)
        }
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def log_files(self, number: int) -> list[Path]:
        return [self.nodes[number].directory / name for name in _LOGS.values()]

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start_keeper()
            for node in self.nodes.values():
                node.directory.mkdir(exist_ok=True)
                (node.directory / "server.properties").write_text(self._properties(node))
                (node.directory / "log4j.properties").write_text(_logging(node.directory))
                self.start_broker(node.id)
            for node in self.nodes.values():
                eventually(partial(accepts, node.port), f"broker {node.id} listens", 120.0)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        stop([node.process for node in self.nodes.values() if node.process])
        for node in self.nodes.values():
            node.process = None
        if self._keeper is not None:
            stop([self._keeper])
            self._keeper = None

    def start_broker(self, number: int) -> None:
        node = self.nodes[number]
        with open(node.directory / "stdout.txt", "ab") as output:
            node.process = spawn(
                [
                    *(java(), "-Xmx512m", "-cp", self._classes),
                    f"-Dlog4j.configuration=file:{node.directory}/log4j.properties",
                    *("kafka.Kafka", node.directory / "server.properties"),
                ],
                stdout=output,
            )

    def stop_broker(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def kill_broker(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def _end(self, number: int, sent: signal.Signals) -> None:
        node = self.nodes[number]
        if node.process:
            stop([node.process], sent)
            node.process = None

    def _start_keeper(self) -> None:
        folder = self._directory / "zookeeper"
        folder.mkdir()
        configuration = folder / "zoo.cfg"
        configuration.write_text(
            f"dataDir={folder}\nclientPort={self._keeper_port}\nclientPortAddress={LOOPBACK}\n"
            "maxClientCnxns=0\nadmin.enableServer=false\ntickTime=500\n"
        )
        with open(folder / "log.txt", "ab") as output:
            self._keeper = spawn(
                [
                    *(java(), "-Xmx256m", "-cp", self._classes),
                    *("org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration),
                ],
                stdout=output,
            )
        eventually(self._keeper_listens, "ZooKeeper listens")

    def _keeper_listens(self) -> bool:
        if self._keeper is not None and self._keeper.poll() is not None:
            raise Unavailable(f"ZooKeeper ended at once: see {self._directory}/zookeeper/log.txt")
        return accepts(self._keeper_port)

    def _properties(self, node: Node) -> str:
        settings = {
            "broker.id": node.id,
            "listeners": f"PLAINTEXT://{node.address}",
            "zookeeper.connect": f"{LOOPBACK}:{self._keeper_port}",
            "zookeeper.session.timeout.ms": 2000,
            "log.dirs": node.data_dir,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.min.isr": min(2, len(self.nodes)),
            "transaction.state.log.replication.factor": len(self.nodes),
            **self._settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def _logging(folder: Path) -> str:
    return _LOGGING + "".join(_APPENDER.format(name, folder / file) for name, file in _LOGS.items())
