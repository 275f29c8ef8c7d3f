"""`cluster.json`: what runs in a data directory, for everybody who wants to find it.

Whoever runs a cluster holds a lock on `cluster.lock` in the same directory for as long as it lives. So a file
that a killed process left behind is told from a true one by asking for the lock, not by trusting a process id
that may be somebody else's by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tidelog.broker.values import Endpoint

STATUS_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"

# Whoever asks whether the lock is free holds it for a moment; that is no reason to give up.
_LOCK_TRIES = 5
_LOCK_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class BrokerStatus:
    """One broker. Before it serves for the first time its port may be 0: any."""

    id: int
    host: str
    port: int
    data_dir: str
    properties: str
    pid: int = 0
    metrics_port: int = -1
    state: str = "starting"
    """starting, serving or ended."""

    @property
    def address(self) -> str:
        return str(Endpoint(self.host, self.port))


@dataclass(slots=True)
class ClusterStatus:
    pid: int
    keeper: str
    generation: str
    brokers: list[BrokerStatus] = field(default_factory=list)
    ready: bool = False

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def as_json(self) -> dict[str, Any]:
        known = asdict(self)
        return {"pid": known.pop("pid"), "bootstrap_servers": self.bootstrap_servers, **known}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        brokers = [BrokerStatus(**broker) for broker in value["brokers"]]
        return cls(value["pid"], value["keeper"], value["generation"], brokers, value["ready"])

    def write(self, data_dir: Path) -> None:
        """Replace the file as a whole: a reader sees the old one or the new one."""
        scratch = data_dir / f"{STATUS_FILE}.tmp"
        scratch.write_text(json.dumps(self.as_json(), indent=2) + "\n", "utf-8")
        os.replace(scratch, data_dir / STATUS_FILE)


def read_status(data_dir: Path) -> ClusterStatus | None:
    """What the file says, whether it still runs or not; None if there is no file that can be understood."""
    try:
        return ClusterStatus.from_json(json.loads((data_dir / STATUS_FILE).read_text("utf-8")))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def running(data_dir: Path) -> ClusterStatus | None:
    """The cluster that runs in a directory now."""
    status = read_status(data_dir)
    return status if status is not None and not _is_free(data_dir) else None


# ---------------------------------------------------------------- the lock


class AlreadyRunning(Exception):
    """Another process runs a cluster in this directory."""


class DirectoryLock:
    """Held from `acquire` to `release`, or to the end of the process, however that comes."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK_FILE
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def acquire(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not tries_left:
                    os.close(fd)
                    raise AlreadyRunning(f"a cluster runs in {self._path.parent} already") from None
                time.sleep(_LOCK_PAUSE_SECONDS)
        self._fd = fd

    def release(self) -> None:
        if self.held:
            os.close(self._fd)
            self._fd = -1


def _is_free(data_dir: Path) -> bool:
    try:
        fd = os.open(data_dir / LOCK_FILE, os.O_RDWR)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
