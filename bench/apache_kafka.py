"""A real Apache Kafka on this machine: N brokers in KRaft mode on loopback.

Each is broker and controller, unless a controller of its own is asked for: then any number of brokers may
fail and another broker notices it.

It is what tidelog is compared with, and what the tests that real clients run can be pointed at. The JVM
options and the heap are those of Kafka's own start script, the settings its defaults, except what a cluster
of N nodes on one machine needs; `settings` adds to them or replaces them.

Run as a program it starts a cluster, prints a ready line and stops it on Ctrl-C:

    python -m bench.apache_kafka --brokers 3 --data-dir /tmp/kafka
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.jars import java, kafka_jars
from bench.processes import LOOPBACK, Unavailable, accepts, eventually, free_ports, spawn, stop

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh would use.
_JVM = (
    *("-Xmx1G", "-Xms1G", "-server", "-Djava.awt.headless=true"),
    *("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
)

CONTROLLER_ID = 1_000

_LOGGING = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
"""


@dataclass
class Node:
    id: int
    port: int
    controller_port: int
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"broker {self.id} does not run")
        return self.process.pid

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The folder that holds one folder for each partition."""
        return self.directory / "data"


class ApacheKafka:
    """Started by `start` or `with`. Broker ids are 1 to N."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        own_controller: bool = False,
    ) -> None:
        self._java, self._jars = java(), kafka_jars()
        self._directory = directory
        self._settings = dict(settings or {})
        ports = free_ports(2 * brokers + 2)
        self.nodes = {
            number: Node(number, ports.pop(), ports.pop(), directory / f"broker-{number}")
            for number in range(1, brokers + 1)
        }
        self._controllers = list(self.nodes.values())
        if own_controller:
            self._controllers = [Node(CONTROLLER_ID, ports.pop(), ports.pop(), directory / "controller")]

    @property
    def _all(self) -> list[Node]:
        return [*self.nodes.values(), *(node for node in self._controllers if node.id not in self.nodes)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    @property
    def controller_directory(self) -> Path:
        """The folder of the first controller: its data and its log."""
        return self._controllers[0].directory

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.values() if node.process]

    # ------------------------------------------------------------ all of them

    def start(self) -> None:
        """Format the folders and start every node. Returns when their ports accept connections."""
        self._directory.mkdir(parents=True, exist_ok=True)
        Path(self._directory, "log4j2.properties").write_text(_LOGGING)
        for node in self._all:
            node.directory.mkdir(exist_ok=True)
            self._configuration(node).write_text(self._properties(node))
        self._format()
        for node in self._all:
            self._start(node)
        for node in self.nodes.values():
            eventually(partial(self._listens, node), f"broker {node.id} listens", 120.0)

    def stop(self) -> None:
        # Brokers first: leaving in order takes a controller.
        for nodes in (self.nodes.values(), self._controllers):
            stop([node.process for node in nodes if node.process])
        for node in self._all:
            node.process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ one of them

    def start_broker(self, number: int) -> None:
        self._start(self.nodes[number])

    def _start(self, node: Node) -> None:
        with open(node.directory / "log.txt", "ab") as log:
            node.process = spawn(
                [*self._java_command(), *_JVM, "kafka.Kafka", self._configuration(node)], stdout=log
            )

    def stop_broker(self, number: int) -> None:
        """A clean stop: the node hands its leaderships over first."""
        self._end(number, signal.SIGTERM)

    def kill_broker(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def pause_broker(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGSTOP)

    def resume_broker(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGCONT)

    def _end(self, number: int, sent: signal.Signals) -> None:
        node = self.nodes[number]
        if node.process:
            stop([node.process], sent)
            node.process = None

    # ------------------------------------------------------------ how

    def run_tool(self, main_class: str, *arguments: str) -> str:
        """What one of Kafka's Java tools prints."""
        return run_tool(main_class, *arguments)

    def _java_command(self) -> list[str]:
        logging = self._directory / "log4j2.properties"
        return [self._java, "-cp", f"{self._jars}/*", f"-Dlog4j2.configurationFile={logging}"]

    def _configuration(self, node: Node) -> Path:
        return node.directory / "server.properties"

    def _listens(self, node: Node) -> bool:
        if node.process and node.process.poll() is not None:
            raise Unavailable(f"broker {node.id} of Apache Kafka ended at once: see {node.directory}/log.txt")
        return accepts(node.port)

    def _properties(self, node: Node) -> str:
        copies = len(self.nodes)
        in_sync = min(2, copies)
        voters = ",".join(f"{each.id}@{LOOPBACK}:{each.controller_port}" for each in self._controllers)
        roles = {
            "broker": f"PLAINTEXT://{node.address}" if node.id in self.nodes else "",
            "controller": f"CONTROLLER://{LOOPBACK}:{node.controller_port}"
            if node in self._controllers
            else "",
        }
        settings = {
            "process.roles": ",".join(role for role, listener in roles.items() if listener),
            "node.id": node.id,
            "controller.quorum.voters": voters,
            "listeners": ",".join(filter(None, roles.values())),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": node.data_dir,
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 5,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 5,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            **self._settings,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _format(self) -> None:
        """What kafka-storage.sh does, once for each folder: every start of Kafka needs it."""
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        command = [*self._java_command(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        formatting = {
            node.id: spawn([*command, "--config", self._configuration(node)], stdout=subprocess.PIPE)
            for node in self._all
            if not (node.data_dir / "meta.properties").exists()
        }
        for number, process in formatting.items():
            said = process.communicate()[0].decode(errors="replace").strip()
            if process.returncode:
                last = said.splitlines()[-1] if said else f"exit code {process.returncode}"
                raise Unavailable(f"Apache Kafka cannot format the folder of broker {number}: {last}")


def tool_command(main_class: str) -> list[str]:
    """The words that run one of Kafka's Java tools. They are short programs: what the second compiler would
    gain, it would cost first."""
    options = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR")
    return [java(), *options, "-cp", f"{kafka_jars()}/*", main_class]


def run_tool(main_class: str, *arguments: str, timeout_seconds: float = 60.0) -> str:
    """Run one of Kafka's Java tools and return what it prints, on stdout and stderr."""
    done = subprocess.run(
        [*tool_command(main_class), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )
    if done.returncode:
        raise RuntimeError(f"{main_class} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description="Run Apache Kafka on this machine until Ctrl-C.")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--data-dir", type=Path, help="kept afterwards; by default a temporary folder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    arguments = parser.parse_args()
    settings = dict(each.split("=", 1) for each in arguments.set)
    asked_to_stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_stop.set())
    started = time.perf_counter()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="apache-kafka-") as scratch,
            ApacheKafka(arguments.data_dir or Path(scratch), arguments.brokers, settings) as kafka,
        ):
            took = time.perf_counter() - started
            print(f"ready bootstrap.servers={kafka.bootstrap_servers} seconds={took:.1f}", flush=True)
            asked_to_stop.wait()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
