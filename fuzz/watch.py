"""The brokers from outside: memory, file descriptors, their log, and what their metrics say.

What is wrong is collected here as `Trouble`, whoever saw it; the campaign fails if there is any.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

from bench.processes import cpu_seconds, is_alive, resident_bytes
from prometheus_client.parser import text_string_to_metric_families

from fuzz.starvation import Starvation
from tidelog.cluster.directory import BrokerStatus
from tidelog.kafka_client.blocking import Client, ClientError

ENVIRONMENT: Final = {"PYTHONFAULTHANDLER": "1"}
"""Of the brokers: a fatal signal prints the stack of every thread."""
_METRICS_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 20.0
SESSION_SECONDS: Final = 4.0
"""`zookeeper.session.timeout.ms`, as `tidelog up` sets it."""
TRACEBACK: Final = "Traceback (most recent call last)"
_LINES_AROUND: Final = 60
_TRACEBACKS_KEPT: Final = 50
_PEER: Final = re.compile(r"broker +(\d+) │ .* from \S+:(\d+)$")
_PASSED_OVER: Final = re.compile(r"closed the connection from")
"""One for each frame that is no request: counted, not kept."""
_LINES_KEPT: Final = 20_000
_LAST_LINES_KEPT: Final = 2_000
"""What a broker says when it is ended for its silence comes last."""
_RECENT: Final = 10
_QUARTER_MIN: Final = 12
_TAILS: Final = "tidelog_tail_bytes"
_BLOCKS: Final = "tidelog_memory_blocks"
_SESSIONS_LOST: Final = "tidelog_keeper_sessions_lost_total"


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
        self._last: deque[str] = deque(maxlen=_LAST_LINES_KEPT)
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
            else:
                self._last.append(line)
            if TRACEBACK in line and len(self.tracebacks) < _TRACEBACKS_KEPT:
                self.tracebacks.append([*self._before, line])
            elif self.tracebacks and len(self.tracebacks[-1]) < _LINES_AROUND:
                self.tracebacks[-1].append(line)
            self._before.append(line)

    def close(self) -> None:
        if self._last:
            self._file.write("…\n" + "\n".join(self._last) + "\n")
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
    tails_warm: int = 0
    """Recent batches that the broker keeps for readers, up to a limit of its own: a cache, and no growth."""
    tails_end: int = 0
    blocks: list[int] = field(default_factory=list)
    """Blocks of memory in use, every few seconds since the warm-up."""
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

    @property
    def grown_bytes(self) -> int:
        """Since the warm-up, without what the cache has grown by."""
        return (self.rss_end - self.tails_end) - (self.rss_warm - self.tails_warm)

    @property
    def crept_blocks(self) -> int | None:
        """How many more blocks are in use in the last quarter of the campaign than in the second; None if it
        was too short to say. The cache of recent batches is full by then; what is never freed still grows."""
        quarter = len(self.blocks) // 4
        if quarter < _QUARTER_MIN:
            return None
        return int(median(self.blocks[-quarter:]) - median(self.blocks[quarter : 2 * quarter]))


class Watch:
    def __init__(self, brokers: list[BrokerStatus], log: Log, others: Sequence[int] = ()) -> None:
        """`others` are processes besides the brokers for which a client may have to wait."""
        self._brokers = brokers
        self.log = log
        self.vitals = [Vitals(broker.id, broker.pid) for broker in brokers]
        self.troubles: list[Trouble] = []
        self.excused: list[Trouble] = []
        """What took too long while a process that had to act was not let run."""
        self.starvation = Starvation([*(broker.pid for broker in brokers), *others])
        self._sessions_lost_before = 0.0
        self._metrics_read_at = time.monotonic()
        self._cpu_before = {each.pid: cpu_seconds(each.pid) for each in self.vitals}
        for each in self.vitals:
            each.rss_start = _resident(each.pid)

    def trouble(self, kind: Kind, text: str) -> None:
        self.troubles.append(Trouble(kind, text))

    def late(self, kind: Kind, text: str, began: float, seconds: float, limit: float) -> None:
        """Something took so long. It is trouble if those who had to act had more time than the limit."""
        if seconds <= limit:
            return
        starved = self.starvation.within(began, seconds)
        if seconds - starved > limit:
            self.trouble(kind, text)
        else:
            self.excused.append(Trouble(kind, f"{text}, {starved:.1f} s of it without a processor"))

    @property
    def all_alive(self) -> bool:
        return all(is_alive(each.pid) for each in self.vitals)

    def look(self) -> None:
        """Note what is now, if it is the most so far."""
        self.starvation.look()
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
        self.read_metrics()
        for each in self.vitals:
            each.tails_warm = each.tails_end
            each.blocks.clear()
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
        """Ask each broker. May be called by a thread."""
        for broker, each in zip(self._brokers, self.vitals, strict=True):
            if broker.metrics_port > 0 and is_alive(each.pid):
                each.metrics |= _metrics(broker)
                each.tails_end = int(each.metrics.get(_TAILS, 0))
                each.blocks.append(int(each.metrics.get(_BLOCKS, 0)))
        self._heed_lost_sessions()

    def _heed_lost_sessions(self) -> None:
        """A session lasts for `SESSION_SECONDS` without a sign of life: who was let run for most of that time
        should have given one."""
        before, self._metrics_read_at = self._metrics_read_at, time.monotonic()
        lost = sum(self.metric(_SESSIONS_LOST))
        if lost > self._sessions_lost_before:
            count, self._sessions_lost_before = lost - self._sessions_lost_before, lost
            began = before - SESSION_SECONDS
            starved = self.starvation.within(began, time.monotonic() - began)
            if starved < SESSION_SECONDS / 2:
                self.trouble(Kind.SESSION, f"{count:g} times")
            else:
                self.excused.append(
                    Trouble(Kind.SESSION, f"{count:g} times, after {starved:.1f} s without a processor")
                )

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
