"""The brokers from outside: memory, file descriptors, their log, and what their metrics say.

What is wrong is collected here as `Trouble`, whoever saw it; the campaign fails if there is any.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

from bench.processes import cpu_seconds, is_alive, resident_bytes
from prometheus_client.parser import text_string_to_metric_families

from tidelog.cluster.directory import BrokerStatus
from tidelog.kafka_client.blocking import Client, ClientError

ENVIRONMENT: Final = {"PYTHONFAULTHANDLER": "1"}
"""Of the brokers: a fatal signal prints the stack of every thread."""
_METRICS_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 20.0
TRACEBACK: Final = "Traceback (most recent call last)"
_LINES_AROUND: Final = 60
_TRACEBACKS_KEPT: Final = 50
_PEER: Final = re.compile(r"broker +(\d+) │ .* from \S+:(\d+)$")
_PASSED_OVER: Final = re.compile(r"closed the connection from")
"""One for each frame that is no request: counted, not kept."""
_LINES_KEPT: Final = 20_000
_RECENT: Final = 10


class Kind(Enum):
    TRACEBACK = "traceback in a log"
    DIED = "broker ended"
    HUNG = "neither answered nor closed"
    WRONG = "wrong answer"
    SESSION = "keeper session lost"
    NEIGHBOUR = "neighbour"
    STALL = "the neighbour waited"
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"
    SURVIVED = "left open"
    STOP = "did not stop in order"


class Trouble(NamedTuple):
    kind: Kind
    text: str


class Log:
    """What brokers say. Called from the thread that reads it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._before: deque[str] = deque(maxlen=3)
        self._kept = 0
        self.tracebacks: list[list[str]] = []
        self.levels: Counter[str] = Counter()
        self.passed_over = 0

    def heard(self, line: str) -> None:
        with self._lock:
            if _PASSED_OVER.search(line):
                self.passed_over += 1
                return
            if self._kept < _LINES_KEPT:
                self._kept += 1
                self._file.write(f"{line}\n")
            if TRACEBACK in line and len(self.tracebacks) < _TRACEBACKS_KEPT:
                self.tracebacks.append([*self._before, line])
            elif self.tracebacks and len(self.tracebacks[-1]) < _LINES_AROUND:
                self.tracebacks[-1].append(line)
            self._before.append(line)

    def close(self) -> None:
        self._file.close()

    @staticmethod
    def place_of(traceback: Iterable[str]) -> tuple[int, int] | None:
        """The broker and the client's port, where it named the connection on which it failed."""
        for line in traceback:
            if found := _PEER.match(line.rstrip()):
                return int(found[1]), int(found[2])
        return None


@dataclass(slots=True)
class Vitals:
    """Of one broker."""

    broker: int
    pid: int
    rss_start: int = 0
    rss_warm: int = 0
    rss_peak: int = 0
    rss_end: int = 0
    descriptors_warm: int = 0
    descriptors_peak: int = 0
    descriptors_end: int = 0
    cpu_seconds: float = 0.0
    """Since the watch began."""
    metrics: dict[str, float] = field(default_factory=dict)
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """Memory and descriptors, as they were last seen."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "recent"}


class Watch:
    def __init__(self, brokers: list[BrokerStatus], log: Log) -> None:
        self._brokers = brokers
        self.log = log
        self.vitals = [Vitals(broker.id, broker.pid) for broker in brokers]
        self.troubles: list[Trouble] = []
        self._cpu_before = {each.pid: cpu_seconds(each.pid) for each in self.vitals}
        for each in self.vitals:
            each.rss_start = _resident(each.pid)

    def trouble(self, kind: Kind, text: str) -> None:
        self.troubles.append(Trouble(kind, text))

    @property
    def all_alive(self) -> bool:
        return all(is_alive(each.pid) for each in self.vitals)

    def look(self) -> None:
        """Note what is now, if it is the most so far."""
        for each in self.vitals:
            if not is_alive(each.pid):
                continue
            each.rss_end, each.descriptors_end = _resident(each.pid), descriptors(each.pid)
            each.cpu_seconds = cpu_seconds(each.pid) - self._cpu_before[each.pid]
            each.recent.append((each.rss_end, each.descriptors_end))
            each.rss_peak = max(each.rss_peak, each.rss_end)
            each.descriptors_peak = max(each.descriptors_peak, each.descriptors_end)

    def warmed_up(self) -> None:
        """The least of the last moments is what is held against later: any of them may be in the middle of an
        attack."""
        self.look()
        for each in self.vitals:
            each.rss_warm = min((rss for rss, _ in each.recent), default=0)
            each.descriptors_warm = min((count for _, count in each.recent), default=0)

    def end_silent(self) -> None:
        """A broker that answers no client any more is made to show its stack in the log (faulthandler, see
        `ENVIRONMENT`), and ends with that."""
        for broker, each in zip(self._brokers, self.vitals, strict=True):
            if not is_alive(each.pid):
                continue
            try:
                Client(broker.host, broker.port, _SILENT_SECONDS).close()
            except ClientError as error:
                self.trouble(Kind.HUNG, f"{error}: broker {broker.id} is silent, its stack is in brokers.log")
                os.kill(each.pid, signal.SIGABRT)

    def read_metrics(self) -> None:
        for broker, each in zip(self._brokers, self.vitals, strict=True):
            if broker.metrics_port > 0 and is_alive(each.pid):
                each.metrics |= _metrics(broker)

    def metric(self, name: str) -> list[float]:
        """Of each broker that has it."""
        return [each.metrics[name] for each in self.vitals if name in each.metrics]


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _resident(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except OSError:
        return 0


def _metrics(broker: BrokerStatus) -> dict[str, float]:
    """The samples without labels; nothing if the broker does not answer."""
    try:
        with urlopen(
            f"http://{broker.host}:{broker.metrics_port}/metrics", timeout=_METRICS_SECONDS
        ) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
