"""A tidelog cluster on this machine, as its user starts it: `tidelog up`.

The same methods as `bench.apache_kafka.ApacheKafka`, so whatever drives one drives the other. All that
is known here about tidelog's command line and files is in `start`, `start_broker`, `_ready` and `_status`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import Unavailable, accepts, eventually, is_alive, spawn, stop

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


class TidelogUp:
    """Started by `start` or `with`. Broker ids are what `tidelog up` says they are."""

    name = "tidelog"

    def __init__(self, directory: Path, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._brokers = brokers
        self._settings = dict(settings or {})
        self._up: subprocess.Popen[bytes] | None = None
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = ""

    @property
    def nodes(self) -> dict[int, Node]:
        return {
            each["id"]: Node(
                each["id"], each["host"], each["port"], self._pid(each), self._folder(int(each["id"]))
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
        self._up = spawn([COMMAND, "up", *where, *settings], stdout=subprocess.PIPE)
        self.bootstrap_servers = self._ready(self._up)

    def stop(self) -> None:
        stop(list(self._restarted.values()))
        if self._up:
            stop([self._up], signal.SIGINT)
        self._restarted, self._up = {}, None

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
        status = self._status()
        node = self.nodes[number]
        where = ("--listen", f"{node.host}:{node.port}", "--data-dir", str(node.data_dir))
        command = [COMMAND, "broker", "--id", str(number), "--keeper", str(status["keeper"]), *where]
        with open(self._directory / f"broker-{number}.log", "ab") as log:
            self._restarted[number] = spawn(command, stdout=log)
        eventually(lambda: accepts(node.port, node.host), f"broker {number} listens")

    def stop_broker(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def kill_broker(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def pause_broker(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGSTOP)

    def resume_broker(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGCONT)

    def _end(self, number: int, sent: signal.Signals) -> None:
        pid = self.nodes[number].pid
        os.kill(pid, sent)
        if restarted := self._restarted.pop(number, None):
            stop([restarted], sent)
        eventually(lambda: not is_alive(pid), f"broker {number} has ended")

    # ------------------------------------------------------------ how

    def _ready(self, up: subprocess.Popen[bytes]) -> str:
        """Wait for the ready line, then keep reading so that the process never blocks on a full pipe."""
        assert up.stdout is not None
        said: deque[bytes] = deque(maxlen=5)
        for line in up.stdout:
            if found := READY.match(line):
                threading.Thread(target=deque, args=(up.stdout, 0), daemon=True).start()
                return found[1].decode()
            said.append(line.rstrip())
        raise Unavailable(f"tidelog up ended without a ready line: {b' / '.join(said).decode()}")

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads((self._directory / "cluster.json").read_text())
        return status

    def _pid(self, broker: dict[str, Any]) -> int:
        restarted = self._restarted.get(broker["id"])
        return restarted.pid if restarted else int(broker["pid"])

    def _folder(self, number: int) -> Path:
        return self._directory / f"broker-{number}"
