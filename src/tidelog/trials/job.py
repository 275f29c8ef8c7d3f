"""A streaming job that copies the topic of a trial into a table, and what is done to it meanwhile.

The job is any command. It gets TIDELOG_SERVERS, TIDELOG_TOPIC, TIDELOG_TABLE and TIDELOG_CHECKPOINT, and runs
until it is killed, or until it has copied what there is and ends with exit code 0; then it is started again.

Rules of the file: the job is a session of its own with everything that it starts, Java included, and is ended
as a whole. Faults wait for a state that can be seen in its folders, never for a time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tidelog.errors import Refusal
from tidelog.kafka_client.blocking import ClientError
from tidelog.trials.expiry import expire, wait_for_records

_POLL_SECONDS: Final = 0.005
_PAUSE_SECONDS: Final = 0.2
"""Between a run that ended by itself and the next one."""
_GONE_SECONDS: Final = 10.0
_FAILURES_MAX: Final = 3
"""Runs in a row that ended with an error, after which the job is given up."""

Progress = Callable[[Path], Mapping[int, int]]
"""How far a checkpoint says that its query has come, by partition; nothing if that is not known."""


class JobFault(StrEnum):
    """What is done to a job."""

    KILL = "kill"
    """kill -9 while a batch is in the table and not committed."""
    EXPIRE = "expire"
    """kill -9 after a batch, and while the job is away retention deletes records that it has not read."""
    FORGET = "forget"
    """kill -9 after a batch, and while the job is away its checkpoint is lost."""
    RECREATE = "recreate"
    """kill -9, and while the job is away its topic is deleted and created again. It is the first fault, and
    happens before the load: what is sent to a topic that is deleted then is gone, and nothing to judge."""


_DONE: Final = {
    JobFault.KILL: "kill the job",
    JobFault.EXPIRE: "kill the job; retention deletes what it has not read",
    JobFault.FORGET: "kill the job and delete its checkpoint",
    JobFault.RECREATE: "start the job again, on a topic that was deleted and created again",
}


@dataclass(slots=True, frozen=True)
class JobPlan:
    name: str
    command: tuple[str, ...]
    progress: Progress
    faults: tuple[JobFault, ...] = (JobFault.KILL,)

    def __post_init__(self) -> None:
        if JobFault.RECREATE in self.faults[1:]:
            raise Refusal("--job-faults: recreate comes first, because it happens before the load")

    @property
    def has_earlier_topic(self) -> bool:
        return self.faults[:1] == (JobFault.RECREATE,)


class Job:
    """`said` is called with each fault, in a thread of its own."""

    def __init__(self, plan: JobPlan, folder: Path, said: Callable[[str], None]) -> None:
        self._plan, self._said = plan, said
        self.table, self.checkpoint = folder / "table", folder / "checkpoint"
        self._log = folder / "job.log"
        folder.mkdir(parents=True)
        self.table.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job", daemon=True)
        self._stale: Mapping[int, int] = {}
        """Where it was in a topic that has been deleted."""
        self.faults_done = 0
        self.failure: str | None = None
        """Why it was given up, in one line."""

    @property
    def suffered(self) -> bool:
        """Everything that was to be done to it has been done, or cannot be done any more."""
        return self.failure is not None or self.faults_done == len(self._plan.faults)

    def read_earlier(self, servers: str, topic: str, ends: Mapping[int, int], seconds: float) -> None:
        """Let it read a topic that will be deleted, and kill it. Raises `Refusal`."""
        self._servers, self._topic = servers, topic
        deadline = time.monotonic() + seconds
        self._lives_until(lambda: time.monotonic() > deadline or self.has_reached(ends))
        reached = self.has_reached(ends)
        self._kill()
        self._stale = self._plan.progress(self.checkpoint)
        if not reached:
            late = f"the job did not read the first topic within {seconds:g} s"
            raise Refusal(self.failure or late)

    def start(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._thread.start()

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether it has committed all offsets below these. Of a job without a checkpoint that is not known:
        then a run that began now and ended in order has copied everything."""
        progress = self._plan.progress(self.checkpoint)
        return all(
            progress.get(partition, 0) >= end and progress.get(partition) != self._stale.get(partition)
            for partition, end in ends.items()
        )

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._kill()

    # ------------------------------------------------------------ in its thread

    def _run(self) -> None:
        try:
            for fault in self._plan.faults:
                if fault is JobFault.RECREATE:
                    # Now it is dead, and its topic another one; it shall find something there.
                    wait_for_records(self._servers, self._topic, {}, self._stop.is_set)
                elif not self._killed_in(fault):
                    return
                self._said(_DONE[fault])
                if fault is JobFault.EXPIRE:
                    self._expire()
                elif fault is JobFault.FORGET:
                    shutil.rmtree(self.checkpoint)
                self.faults_done += 1
            self._lives_until(lambda: False)
        except (OSError, ClientError) as error:
            self.failure = f"the job: {error}"

    def _killed_in(self, fault: JobFault) -> bool:
        """Kill it in the state in which a fault happens; again, if it left that state before it died. False
        if it is to stop before, or was given up."""
        while self._lives_until(self._moment(fault)):
            self._kill()
            if fault is not JobFault.KILL or self._planned() > self._commits():
                return True
        return False

    def _lives_until(self, is_so: Callable[[], bool]) -> bool:
        """Keep it running until it is so. False if it is to stop before, or was given up."""
        failures = 0
        while not self._stop.is_set():
            if self._process is None:
                self._start()
            assert self._process is not None
            if is_so():
                return True
            code = self._process.poll()
            if code is None:
                self._stop.wait(_POLL_SECONDS)
                continue
            failures = failures + 1 if code else 0
            if failures == _FAILURES_MAX:
                self.failure = f"the job ended {failures} times with an error: {self._last_line()}"
                return False
            self._kill()
            self._stop.wait(_PAUSE_SECONDS)
        return False

    def _moment(self, fault: JobFault) -> Callable[[], bool]:
        """The state in which a fault happens."""
        if fault is not JobFault.KILL:
            before = self._commits()
            return lambda: self._commits() > before
        planned, files = 0, 0

        def between() -> bool:
            """The batch that runs has put files into the table since it was planned."""
            nonlocal planned, files
            if self._planned() != planned:
                planned, files = self._planned(), self._files()
            return planned > self._commits() > 0 and self._files() > files

        return between

    def _files(self) -> int:
        return sum(1 for path in self.table.glob("*.parquet"))

    def _planned(self) -> int:
        return _numbers(self.checkpoint / "offsets")

    def _commits(self) -> int:
        return _numbers(self.checkpoint / "commits")

    def _expire(self) -> None:
        expire(self._servers, self._topic, self._plan.progress(self.checkpoint), self._stop.is_set)

    # ------------------------------------------------------------ the process

    def _start(self) -> None:
        environment = {
            **os.environ,
            "TIDELOG_SERVERS": self._servers,
            "TIDELOG_TOPIC": self._topic,
            "TIDELOG_TABLE": str(self.table),
            "TIDELOG_CHECKPOINT": str(self.checkpoint),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._plan.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _kill(self) -> None:
        """Also what a run that ended by itself may have left, such as its Java."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _wait_until_gone(self._process.pid)
            self._process = None

    def _last_line(self) -> str:
        lines = self._log.read_text("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"see {self._log}")


def _wait_until_gone(group: int) -> None:
    """Processes that were killed take a moment, and must not write beside those of the next run."""
    deadline = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < deadline and any(_is_of(group, path) for path in Path("/proc").glob("[0-9]*")):
        time.sleep(_POLL_SECONDS)


def _is_of(group: int, process: Path) -> bool:
    """Whether a process is of this group and not dead; a dead one may stay listed for ever."""
    with suppress(OSError, ValueError, IndexError):
        state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
        return int(its_group) == group and state not in "ZX"
    return False


def _numbers(folder: Path) -> int:
    """How many batches have a file there."""
    with suppress(FileNotFoundError):
        return max((int(name) + 1 for name in os.listdir(folder) if name.isdigit()), default=0)
    return 0


def wait_for_job(
    job: Job, ends: Mapping[int, int], seconds: float, give_up: Callable[[], bool]
) -> str | None:
    """Until it has copied everything. If not: why."""
    deadline = time.monotonic() + seconds
    while not job.has_reached(ends):
        if job.failure is not None:
            return job.failure
        if time.monotonic() > deadline or give_up():
            return f"the job did not reach the end of the topic within {seconds:g} s"
        time.sleep(_PAUSE_SECONDS)
    return None
