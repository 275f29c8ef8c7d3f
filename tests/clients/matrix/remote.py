"""Clients in other languages: a program each, which reads a command a line and answers each with one line.

    produce TOPIC true|false VALUE…        offsets OFFSET…          true: idempotent
    consume TOPIC COUNT                    values VALUE…
    administer TOPIC                       partitions COUNT
    join NAME TOPIC GROUP range|cooperative INSTANCE|-      joined
    state NAME                             state REBALANCES RECORDS OWNED|- REVOKED|-
    commit NAME                            committed
    leave NAME                             left

Anything that fails is answered with `error` and a reason. The end of the lines ends the program.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import ClassVar

from bench.jars import cached, java, run_maven
from bench.processes import PATIENCE_SECONDS
from bench.tools import Missing, Tool, find
from tests.clients.matrix.client import Client, Member

HERE = Path(__file__).parent
ANSWER_SECONDS = 120.0


class RemoteError(Exception):
    """The program said that something went wrong, or nothing at all."""


class Remote:
    """One running program."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: Queue[str] = Queue()
        self._complaints: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints = [*self._complaints[-20:], line]

    def ask(self, *words: str) -> list[str]:
        """Say a line; the words of the answer after the first."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=ANSWER_SECONDS)
        except (BrokenPipeError, Empty):
            line = ""
        kind, *rest = line.split(" ")
        if kind in ("error", ""):
            raise RemoteError(f"{words[0]}: {' '.join(rest) or 'no answer'}\n{''.join(self._complaints)}")
        return rest

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


class RemoteMember(Member):
    """It polls by itself; ``poll`` asks how it is doing."""

    _names = count()

    def __init__(self, remote: Remote, group: str, topic: str, assignor: str, instance: str | None) -> None:
        super().__init__()
        self._remote = remote
        self._name = f"member-{next(self._names)}"
        self._owned: set[int] = set()
        remote.ask("join", self._name, topic, group, assignor, instance or "-")

    def poll(self) -> None:
        rebalances, _records, owned, revoked = self._remote.ask("state", self._name)
        self.rebalances, self._owned, self.revoked = int(rebalances), _numbers(owned), _numbers(revoked)

    def partitions(self) -> set[int]:
        return self._owned

    def commit(self) -> None:
        self._remote.ask("commit", self._name)

    def close(self) -> None:
        self._remote.ask("leave", self._name)


def _numbers(text: str) -> set[int]:
    return set() if text == "-" else set(map(int, text.split(",")))


class RemoteClient(Client):
    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self._remote = Remote([*self.command(), bootstrap_servers])

    @classmethod
    def command(cls) -> list[str]:
        raise NotImplementedError

    @property
    def exit_code(self) -> int | None:
        """Of a client that was closed. Negative if it had to be killed."""
        return self._remote.exit_code

    def close(self) -> None:
        self._remote.close()

    def produce(self, topic: str, values: Sequence[str], *, idempotent: bool) -> list[int] | None:
        told = self._remote.ask("produce", topic, "true" if idempotent else "false", *values)
        return [int(offset) for offset in told] or None

    def consume(self, topic: str, count: int) -> list[str]:
        return self._remote.ask("consume", topic, str(count))

    def member(self, group: str, topic: str, *, cooperative: bool, instance: str | None) -> Member:
        assignor = "cooperative" if cooperative else "range"
        return RemoteMember(self._remote, group, topic, assignor, instance)

    def administer(self, topic: str) -> int:
        return int(self._remote.ask("administer", topic)[0])


# ---------------------------------------------------------------- Java

JAVA_PROJECT = HERE.parent / "java"


JAVA_CLIENTS = ("3.9.2", "4.3.1")
"""The last 3.x, which Spark's connector uses, and today's."""


def compiled(client: str) -> str:
    """The class path of the Java programs, compiled against this client unless that was done before."""

    def compile_into(made: Path) -> None:
        goals = ("compiler:compile", "dependency:copy-dependencies")
        run_maven(JAVA_PROJECT, *goals, f"-Dkafka.version={client}", f"-Dinto={made}")

    folder = cached(f"java-client-{client}-{_digest(JAVA_PROJECT)}", compile_into)
    return f"{folder}/classes:{folder}/jars/*"


def _digest(project: Path) -> str:
    sources = b"".join(path.read_bytes() for path in sorted(project.rglob("*.*")))
    return hashlib.sha256(sources).hexdigest()[:12]


class JavaClient(RemoteClient):
    client_version: ClassVar[str]

    @classmethod
    def version(cls) -> str:
        return cls.client_version

    @classmethod
    def command(cls) -> list[str]:
        # Short programs: what the second compiler would gain, it would cost first.
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1")
        return [java(), *options, "-cp", compiled(cls.client_version), "Remote"]


class Java3(JavaClient):
    name = "Java kafka-clients 3"
    client_version = JAVA_CLIENTS[0]


class Java4(JavaClient):
    name = "Java kafka-clients 4"
    client_version = JAVA_CLIENTS[1]


# ---------------------------------------------------------------- Go

GO_PROJECT = HERE.parent / "go"


class FranzGo(RemoteClient):
    name = "franz-go"

    @classmethod
    def version(cls) -> str:
        lines = (GO_PROJECT / "go.mod").read_text().splitlines()
        return next(line.split()[-1] for line in lines if "franz-go v" in line).lstrip("v")

    @classmethod
    def command(cls) -> list[str]:
        return [built_with_go(f"franz-go-{_digest(GO_PROJECT)}", "build", ".")]


def built_with_go(name: str, *command: str) -> str:
    """The program of the Go project that a command of `go` makes, unless that was done before."""

    def build(made: Path) -> None:
        verb, *what = command
        words = [find(Tool.GO), verb, "-o", str(made), *what]
        built = subprocess.run(words, cwd=GO_PROJECT, capture_output=True, text=True, check=False)
        if built.returncode:
            raise Missing(Tool.GO, f"go {verb} failed: {built.stderr.strip().splitlines()[-1]}")

    return str(cached(name, build))


# ---------------------------------------------------------------- Spark

SPARK_PROJECT = HERE.parent / "spark"


class Spark(RemoteClient):
    """Spark's own Kafka source and sink: the connector's jars on top of the installed PySpark."""

    name = "Spark's Kafka source and sink"
    lacks: ClassVar[dict[str, str]] = {
        "groups": "it assigns partitions itself and keeps positions in its checkpoints",
        "cooperative": "no groups",
        "static": "no groups",
        "admin": "it only asks for offsets",
    }

    @classmethod
    def version(cls) -> str:
        return version("pyspark")

    @classmethod
    def command(cls) -> list[str]:

        def fetch(made: Path) -> None:
            wanted = f"-Dspark.version={cls.version()}"
            run_maven(SPARK_PROJECT, "dependency:copy-dependencies", wanted, f"-Dinto={made}")

        folder = cached(f"spark-kafka-{cls.version()}-{_digest(SPARK_PROJECT)}", fetch)
        jars = sorted(str(jar) for jar in folder.iterdir())
        return [sys.executable, str(HERE / "spark_program.py"), json.dumps(jars)]
