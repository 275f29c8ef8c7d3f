"""kcat, the command line tool (Debian's package `kcat`): librdkafka of another age. A process per task."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import ClassVar

from bench.processes import PATIENCE_SECONDS
from bench.tools import Tool, find
from tests.clients.matrix.client import Client, Member

_REBALANCED = re.compile(r"% Group \S+ rebalanced.*?(assign|revoke)")
_PARTITION = re.compile(r"\S+ \[(\d+)\]")


class KcatMember(Member):
    """It reads, commits and says on its standard error what it is given. Cooperative or not, it is told the
    difference each time; an eager one gives up everything first."""

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._owned: set[int] = set()
        self._said: list[str] = []
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if told := _REBALANCED.match(line):
                partitions = {int(number) for number in _PARTITION.findall(line)}
                if told[1] == "assign":
                    self._owned = self._owned | partitions
                    self.rebalances += 1
                else:
                    self._owned = self._owned - partitions
                    self.revoked |= partitions

    def poll(self) -> None:
        assert self._process.poll() is None, "".join(self._said)
        self._listening.join(0.05)

    def partitions(self) -> set[int]:
        return self._owned

    def commit(self) -> None:
        """It commits by itself."""

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_SECONDS)
        self._listening.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


class Kcat(Client):
    name = "kcat"
    quick = True
    lacks: ClassVar[dict[str, str]] = {"admin": "it lists metadata, and changes nothing"}

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self._kcat = [find(Tool.KCAT), "-b", bootstrap_servers]

    @classmethod
    def version(cls) -> str:
        said = subprocess.run([find(Tool.KCAT), "-V"], capture_output=True, text=True, check=True).stdout
        numbers = re.search(r"Version (\S+) .*librdkafka (\S+)", said)
        assert numbers is not None, said
        return f"{numbers[1]} (librdkafka {numbers[2]})"

    def _run(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [*self._kcat, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def produce(self, topic: str, values: Sequence[str], *, idempotent: bool) -> list[int] | None:
        settings = ("-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "acks=all")
        self._run("-P", "-t", topic, "-p", "0", *settings, given="\n".join(values) + "\n")
        return None

    def consume(self, topic: str, count: int) -> list[str]:
        return self._run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count)).split()

    def member(self, group: str, topic: str, *, cooperative: bool, instance: str | None) -> Member:
        settings = {
            "session.timeout.ms": "45000",
            "heartbeat.interval.ms": "200",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "100",
            "partition.assignment.strategy": "cooperative-sticky" if cooperative else "range",
            **({} if instance is None else {"group.instance.id": instance}),
        }
        options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        return KcatMember([*self._kcat, *options, "-G", group, topic])
