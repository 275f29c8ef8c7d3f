"""Following: the query runs until there is nothing left to follow, or the caller ends it.

    folder/checkpoint/    Spark's: how far everything was read, and what is remembered
    folder/following.json whose they are
    folder/findings/      Parquet

Rules of the file:

* What has ended already is read through once, in as many steps as it takes.
* What still grows is looked at every second. It has ended when its target says so and everything was read.
* A checkpoint belongs to what it was made for. A follower of something else is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError, first_line, last_line, worker_did_not_connect
from tidelog.pipeline.live import query
from tidelog.pipeline.live.findings import Findings
from tidelog.pipeline.live.targets import Target, Tell
from tidelog.storage.durable import write_synced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVERY: Final = "1 second"
_LOOK_S: Final = 0.25
_OWNER: Final = "following.json"
_AGAIN_MAX: Final = 5
"""How often the query goes on from its checkpoint because a worker did not start in time."""


@dataclass(slots=True, frozen=True)
class Followed:
    sightings: int
    """Acknowledgements and reads that were looked at by this run."""
    found: int
    """Findings of this run."""
    found_before: int
    ended: bool
    """There is nothing left to follow; otherwise the caller ended it."""


class Follower:
    def __init__(self, spark: SparkSession, target: Target, folder: Path, tell: Tell) -> None:
        """Raises `PipelineError` if the folder holds the checkpoint of something else."""
        self._spark = spark
        self._target = target
        self._folder = folder.absolute()
        self._tell = tell
        self._findings = Findings(self._folder / "findings")
        self._found = 0
        self._failure: PipelineError | None = None
        self._held = _own(self._folder, target.identity())
        self.found_before = self._findings.kept()

    def follow(self, *, seconds: float | None = None, enough: threading.Event | None = None) -> Followed:
        """Raises `PipelineError`. Afterwards the folder is free for the next follower."""
        try:
            return self._follow(seconds, enough or threading.Event())
        finally:
            self.close()

    def close(self) -> None:
        """Let the folder go."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def _follow(self, seconds: float | None, enough: threading.Event) -> Followed:
        deadline = None if seconds is None else time.monotonic() + seconds

        def goes_on() -> bool:
            return not enough.is_set() and (deadline is None or time.monotonic() < deadline)

        ended, again = False, _AGAIN_MAX
        rows: dict[int, int] = {}
        while not ended and goes_on():
            running = self._start(once=self._target.has_ended())
            try:
                while not ended and goes_on():
                    ended = bool(running.awaitTermination(_LOOK_S)) or self._is_over(running)
                    rows |= {step["batchId"]: int(step["numInputRows"]) for step in running.recentProgress}
            except Exception as error:  # Spark's errors share no class
                if enough.is_set():
                    break
                if self._failure is not None or not again or not worker_did_not_connect(error):
                    raise self._failure or PipelineError(f"following ended: {last_line(error)}") from error
                again -= 1
            finally:
                _stop(running)
        return Followed(sum(rows.values()), self._found, self.found_before, ended)

    def _start(self, *, once: bool) -> Any:
        writer = (
            query.findings(self._target.sightings(self._spark))
            .writeStream.outputMode("append")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .foreachBatch(self._take)
        )
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_EVERY)
        try:
            with _settings(self._spark):
                return writer.start()
        except Exception as error:  # Spark's errors share no class
            raise PipelineError(f"following does not start: {first_line(error)}") from error

    def _take(self, found: DataFrame, batch: int) -> None:
        rows = [row.asDict() for row in found.orderBy("time_us", "topic", "partition", "offset").collect()]
        if not rows:
            return
        try:
            for row in rows:
                row["severity"] = self._target.severity(row)
            if self._findings.keep(batch, rows):
                self._found += len(rows)
                for row in rows:
                    self._tell(row)
        except PipelineError as error:
            self._failure = error
            raise

    def _is_over(self, running: Any) -> bool:
        # Asked in this order: what was written before the end is then part of what has to be read.
        return self._target.has_ended() and _reached(running.lastProgress) == self._target.end()


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Settings for a query that starts now: it keeps them, the session does not."""
    before = {name: spark.conf.get(name, None) for name in query.SETTINGS}
    for name, value in query.SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


def _reached(progress: Any) -> dict[str, Any]:
    """How far the last micro-batch read."""
    if not progress or not progress["sources"]:
        return {}
    end = progress["sources"][0]["endOffset"]
    found = json.loads(end) if isinstance(end, str) else end
    return dict(found or {})


def _stop(running: Any) -> None:
    try:
        running.stop()
    except Exception as error:  # Spark's errors share no class
        raise PipelineError(f"following cannot be ended: {first_line(error)}") from error


def _own(folder: Path, identity: dict[str, Any]) -> int:
    """Make the folder ours, or find that it is; a descriptor that holds it against others."""
    path = folder / _OWNER
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if any(found.name != f"{_OWNER}.tmp" for found in folder.iterdir()):
                raise PipelineError(f"{folder} is not empty and no checkpoint: choose another folder")
            write_synced(path, f"{json.dumps(identity)}\n".encode())
        if json.loads(path.read_text("utf-8")) != identity:
            raise PipelineError(f"{folder} is the checkpoint of something else: choose another folder")
        held = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise PipelineError(f"{folder}: {reason(error)}") from None
    except ValueError:
        raise PipelineError(f"{path} cannot be understood: choose another folder") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise PipelineError(f"another process follows with {folder} already: choose another folder") from None
    return held
