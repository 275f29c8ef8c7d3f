"""A tidelog cluster on this machine, as its user starts it: `tidelog up`.

The same methods as `bench.apache_kafka.ApacheKafka`, so whatever drives one drives the other. All that
is known here about tidelog's command line and files is in `start`, `start_broker`, `_ready` and `_status`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import IO, Any, Self

from bench.processes import PATIENCE_SECONDS, Unavailable, accepts, eventually, is_alive, spawn, stop

# The console script beside the Python that runs this: the one a user types.
COMMAND = str(Path(sys.executable).with_name("tidelog"))
READY = re.compile(rb"^ready\b.*\bbootstrap\.servers=(\S+)")


@dataclass
class Node:
    id: int
    host: str
    port: int
    pid: int
    data_dir: Path
    """The folder that holds one folder for each partition."""
    properties: Path


class TidelogUp:
    """Started by `start` or `with`. Broker ids are what `tidelog up` says they are."""

    name = "tidelog"

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`environment` is added to that of its processes. `on_line` gets what the cluster prints, in its own
        thread."""
        self._environment = environment
        self._on_line = on_line
        self._directory = directory
        self._brokers = brokers
        self._settings = dict(settings or {})
        self._up: subprocess.Popen[bytes] | None = None
        self._reading: threading.Thread | None = None
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = ""

    @property
    def nodes(self) -> dict[int, Node]:
        return {
            each["id"]: Node(
                id=each["id"],
                host=each["host"],
                port=each["port"],
                pid=self._pid(each),
                data_dir=Path(each["data_dir"]),
                properties=Path(each["properties"]),
            )
            for each in self._status()["brokers"]
        }

    @property
    def pids(self) -> list[int]:
        """Every process of the cluster: the brokers, and whatever started them and coordinates them."""
        brokers = [node.pid for node in self.nodes.values()]
        every = dict.fromkeys([self._up.pid if self._up else 0, *brokers])
        return [pid for pid in every if pid and is_alive(pid)]

    # ------------------------------------------------------------ all of them

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        where = ("--brokers", str(self._brokers), "--port", "0", "--data-dir", str(self._directory))
        command = [COMMAND, "up", *where, *settings]
        # By SIGTERM, so that it can stop its brokers.
        self._up = spawn(command, stdout=subprocess.PIPE, environment=self._environment, when_orphaned="TERM")
        self.bootstrap_servers = self._ready(self._up)

    def stop(self) -> None:
        stop(list(self._restarted.values()))
        if self._up:
            stop([self._up], signal.SIGINT)
        if self._reading:
            self._reading.join()
        self._restarted, self._up, self._reading = {}, None, None

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
        """Start one broker again where it was: same id, address and folder."""
        node = self.nodes[number]
        # The file may say port 0, any; clients look for the broker where it was.
        where = ("--properties", str(node.properties), "--listen", f"{node.host}:{node.port}")
        with open(self._directory / f"broker-{number}.log", "ab") as log:
            self._restarted[number] = spawn([COMMAND, "broker", *where], stdout=log)
        eventually(lambda: accepts(node.port, node.host), f"broker {number} listens")

    def stop_broker(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def kill_broker(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def pause_broker(self, number: int) -> None:
        os.kill(self._alive(number), signal.SIGSTOP)

    def resume_broker(self, number: int) -> None:
        os.kill(self._alive(number), signal.SIGCONT)

    def _end(self, number: int, sent: signal.Signals) -> None:
        pid = self._alive(number)
        if restarted := self._restarted.get(number):
            stop([restarted], sent)
        else:
            os.kill(pid, sent)
        eventually(lambda: not is_alive(pid), f"broker {number} has ended")

    def _alive(self, number: int) -> int:
        """The process of a broker that runs: never signal an id that may belong to another process by now."""
        pid = self.nodes[number].pid
        if pid <= 0 or not is_alive(pid):
            raise RuntimeError(f"broker {number} does not run")
        return pid

    # ------------------------------------------------------------ how

    def _ready(self, up: subprocess.Popen[bytes]) -> str:
        """The bootstrap servers of the ready line. Reading goes on after it: a full pipe would block them."""
        assert up.stdout is not None
        said: deque[str] = deque(maxlen=5)
        found: Queue[str] = Queue()

        def read(lines: IO[bytes]) -> None:
            with lines:
                for line in lines:
                    if ready := READY.match(line):
                        found.put(ready[1].decode())
                    text = line.decode(errors="replace").strip()
                    said.append(text)
                    self._on_line(text)
            found.put("")

        self._reading = threading.Thread(target=read, args=(up.stdout,), daemon=True)
        self._reading.start()
        with contextlib.suppress(Empty):
            if bootstrap_servers := found.get(timeout=PATIENCE_SECONDS):
                return bootstrap_servers
        raise Unavailable(f"tidelog up did not become ready; it said: {' / '.join(said) or 'nothing'}")

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads((self._directory / "cluster.json").read_text())
        return status

    def _pid(self, broker: dict[str, Any]) -> int:
        restarted = self._restarted.get(broker["id"])
        return restarted.pid if restarted else int(broker["pid"])
