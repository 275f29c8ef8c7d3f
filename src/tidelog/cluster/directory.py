"""What runs in a data directory, and how to find it.

`cluster.json` is what the process that runs a cluster says about it. That process holds a lock on
`cluster.lock` in the same directory for as long as it lives. So a file that a killed process left behind is
recognized by asking for the lock, not by trusting a process id that may be another's by now.

The file knows the brokers that the cluster has started. It does not know one that was killed and started
again by hand; and once the process that runs the cluster is killed, the file is out of date. But every broker
locks its own data, and the lock names its holder (`running_brokers`). Nothing is ever signalled that does not
hold such a lock now (`Ending`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tidelog.cluster.broker_process import BrokerState
from tidelog.errors import Refusal
from tidelog.settings.kinds import Endpoint
from tidelog.storage import lock_file
from tidelog.storage.lock_file import Process
from tidelog.storage.log_folder import LOCK

STATUS_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"
KEEPER_FOLDER = "keeper"


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
    state: BrokerState = BrokerState.STARTING

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
        """Those whose port is known already."""
        return ",".join(broker.address for broker in self.brokers if broker.port)

    def as_json(self) -> dict[str, Any]:
        known = asdict(self)
        return {"pid": known.pop("pid"), "bootstrap_servers": self.bootstrap_servers, **known}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        brokers = [
            BrokerStatus(**broker | {"state": BrokerState(broker["state"])}) for broker in value["brokers"]
        ]
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
    return status if status is not None and lock_file.is_held(data_dir / LOCK_FILE) else None


# ---------------------------------------------------------------- brokers, those started by hand included


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker whose data is in use. `process` is None for a moment while it takes its data."""

    id: int
    process: Process | None

    def __str__(self) -> str:
        return f"broker {self.id}" + (f" (pid {self.process.pid})" if self.process is not None else "")


def broker_folders(data_dir: Path) -> dict[int, Path]:
    """The data of each broker that a cluster has, or had, in a directory."""
    found = ((re.fullmatch(r"broker-(\d+)", path.name), path) for path in data_dir.glob("broker-*"))
    return dict(sorted((int(name[1]), path) for name, path in found if name and path.is_dir()))


def running_brokers(data_dir: Path) -> list[RunningBroker]:
    """The brokers of a directory that run now, whether the cluster started them or a person by hand."""
    locks = ((number, folder / LOCK) for number, folder in broker_folders(data_dir).items())
    return [
        RunningBroker(number, lock_file.holder(lock)) for number, lock in locks if lock_file.is_held(lock)
    ]


def remove_data(data_dir: Path) -> None:
    """What earlier clusters made in a directory, and nothing else."""
    for path in data_dir.glob("broker-*.properties"):
        path.unlink()
    for folder in (*broker_folders(data_dir).values(), data_dir / KEEPER_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- temporary directories

_TEMPORARY: Final = "tidelog-run-"
_KEPT: Final = "tidelog-kept-"
_LEFT_AFTER_SECONDS: Final = 60.0
"""A younger directory may be one whose cluster has not taken its lock yet."""


def temporary_dir(*, keep: bool) -> Path:
    """A new one, for a cluster that was given none."""
    name = f"{_KEPT if keep else _TEMPORARY}{uuid.uuid4().hex[:12]}"
    return Path(tempfile.gettempdir(), name).absolute()


def remove_leftovers() -> None:
    """Remove temporary directories of clusters whose process was killed before it could do so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        with suppress(OSError):
            lock = folder / LOCK_FILE
            left = time.time() - lock.stat().st_mtime > _LEFT_AFTER_SECONDS
            if left and not lock_file.is_held(lock) and not running_brokers(folder):
                shutil.rmtree(folder, ignore_errors=True)


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
        try:
            self._fd = lock_file.acquire(self._path)
        except BlockingIOError:
            raise AlreadyRunning(f"a cluster runs in {self._path.parent} already") from None

    def release(self) -> None:
        if self.held:
            os.close(self._fd)
            self._fd = -1


class Ending:
    """Each broker is asked once to shut down in order: a second SIGTERM would make it hurry."""

    def __init__(self, data_dir: Path, spared: Collection[int] = ()) -> None:
        """`spared`: process ids of brokers that are ended in another way. This process never ends itself."""
        self._data_dir = data_dir
        self._spared = frozenset((*spared, os.getpid()))
        self.asked: set[Process] = set()
        self.of_others: set[Process] = set()
        """Processes of other users, which cannot be ended from here."""

    def ask(self) -> list[RunningBroker]:
        """Ask those that were not asked yet; the ones that have not ended."""
        left = self._left()
        for broker in left:
            if broker.process is not None and broker.process not in self.asked:
                self.asked.add(broker.process)
                # A paused one could not end.
                self._send(broker.process, signal.SIGCONT, signal.SIGTERM)
        return left

    def kill(self) -> None:
        for broker in self._left():
            if broker.process is not None:
                self.asked.add(broker.process)
                self._send(broker.process, signal.SIGKILL)

    def _left(self) -> list[RunningBroker]:
        return [
            broker
            for broker in running_brokers(self._data_dir)
            if broker.process is None
            or (broker.process.pid not in self._spared and broker.process not in self.of_others)
        ]

    def _send(self, process: Process, *signals: signal.Signals) -> None:
        try:
            for sent in signals:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, sent)
        except PermissionError:
            self.of_others.add(process)
            self.asked.discard(process)


def kill_leftovers(data_dir: Path) -> int:
    """Kill the brokers of a cluster whose supervisor is gone; how many there were. They end by themselves a
    moment after it, but one that is paused cannot."""
    ending = Ending(data_dir)
    ending.kill()
    return len(ending.asked)


# ---------------------------------------------------------------- the default cluster

# `$XDG_STATE_HOME/tidelog` (`~/.local/state/tidelog`) holds `latest`, the path of the data directory of the
# cluster that was started last on this machine, and `cluster`, the default data directory of a detached one.


def state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tidelog"


def detached_dir() -> Path:
    return state_dir() / "cluster"


def remember(data_dir: Path) -> None:
    """Make this the default cluster of later commands. Errors are ignored: the default is a convenience."""
    try:
        state_dir().mkdir(parents=True, exist_ok=True)
        (state_dir() / "latest").write_text(f"{data_dir}\n", "utf-8")
    except OSError:
        pass


def latest_dir() -> Path | None:
    try:
        return Path((state_dir() / "latest").read_text("utf-8").strip())
    except OSError:
        return None


def likely_dirs() -> list[Path]:
    """Default places to look for a running cluster. The last one started comes first."""
    return [folder for folder in (latest_dir(), detached_dir()) if folder is not None]


def running_cluster(data_dir: Path | None) -> tuple[Path, ClusterStatus]:
    """The cluster in a directory, or the last one started. Raises `Refusal` if none runs."""
    for folder in likely_dirs() if data_dir is None else [data_dir]:
        if (status := running(folder)) is not None:
            return folder, status
    where = f" in {data_dir}" if data_dir is not None else ""
    raise Refusal(f"no cluster is running{where}: start one with tidelog up")


def in_use(folders: Sequence[Path]) -> Path | None:
    """The first of some directories where a cluster, or a broker that a killed one left behind, runs."""
    return next(
        (each for each in folders if lock_file.is_held(each / LOCK_FILE) or running_brokers(each)), None
    )
