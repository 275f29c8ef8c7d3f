"""What can be followed: the evidence of a trial, or a live topic. Each knows who it is, what to read, and
when there is nothing more to come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.evidence.folder import LOCK, RUNNING, EvidenceError, Manifest
from tidelog.evidence.parquet.growing import Growth
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.tables import CLIENT_EVENTS
from tidelog.pipeline.audit.context import vanished_places
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION
from tidelog.pipeline.audit.kernels.reads_piece import moved_why
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.live import query
from tidelog.pipeline.live.findings import DUPLICATED
from tidelog.storage.lock_file import is_held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGINS_WITHIN_S: Final = 120.0
_LOOK_S: Final = 0.2


class Target(Protocol):
    def identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to."""
        ...

    def sightings(self, spark: SparkSession) -> DataFrame: ...

    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        ...

    def end(self) -> dict[str, Any]:
        """How far there is something to read."""
        ...

    def severity(self, finding: dict[str, Any]) -> str: ...


class TrialTarget:
    """A folder of evidence. Raises `PipelineError` if it is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._manifest()  # which refuses what is none
        self._growth = Growth(self.folder)

    def _manifest(self) -> Manifest:
        try:
            return Manifest.read(self.folder)
        except EvidenceError as error:
            raise PipelineError(str(error)) from None

    def identity(self) -> dict[str, Any]:
        # A trial that is just being started does not know its beginning yet.
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while not (manifest := self._manifest()).started_us and not self.has_ended():
            if time.monotonic() > deadline:
                raise PipelineError(f"the trial in {self.folder} does not begin")
            time.sleep(_LOOK_S)
        return {
            "stage": manifest.stage,
            "generation": manifest.generation,
            "seed": manifest.seed,
            "started_us": manifest.started_us,
        }

    def sightings(self, spark: SparkSession) -> DataFrame:
        return query.of_evidence(spark, self.folder)

    def has_ended(self) -> bool:
        # A trial that was killed still says that it runs, but holds no lock.
        return self._manifest().state != RUNNING or not is_held(self.folder / LOCK)

    def end(self) -> dict[str, Any]:
        return {name: rows for name, rows in self._growth.position().items() if rows}

    def severity(self, finding: dict[str, Any]) -> str:
        """As the audit has it: by who sent, and by whether the consumer knew."""
        if finding["anomaly"] == DUPLICATED:
            producer = (finding["value"] or "").rpartition("-")[0]
            idempotent = {
                client["name"] for client in self._manifest().clients if client.get("idempotent", False)
            }
            return VIOLATION if producer in idempotent else NOTICE
        if finding["position"] is not None:
            place = (finding["topic"], finding["partition"])
            vanished = vanished_places(self._client_events(), lambda named: named)
            who, position, time_us = finding["consumer"], finding["position"], finding["time_us"]
            return moved_why(vanished, who, place, position, time_us)[0]
        return str(finding["severity"])

    def _client_events(self) -> Iterator[dict[str, Any]]:
        """What clients noticed so far, in journals and in what they became."""
        for path in sorted((self.folder / "journal").glob("client_events-*.jsonl")):
            with suppress(OSError):
                for line in path.read_text("utf-8").splitlines():
                    with suppress(ValueError):  # the last line may be half written
                        yield json.loads(line)
        yield from rows_of(self.folder, CLIENT_EVENTS)


class TopicTarget:
    """A topic of a cluster that runs. Raises `PipelineError` if it cannot be reached."""

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        from_beginning: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        from tidelog.pipeline.sources.topic_client import EARLIEST, LATEST, TopicOptions, Topics

        self._topic = topic
        self._start = EARLIEST if from_beginning else LATEST
        named = {f"kafka.{name}": value for name, value in (settings or {}).items()}
        self._options = {**named, "kafka.bootstrap.servers": servers, "subscribe": topic}
        topics = Topics(TopicOptions(self._options))
        try:
            topics.partitions()
            self._cluster = topics.cluster_id()
            self._dense = not topics.is_compacted(topic)
        finally:
            topics.close()

    def identity(self) -> dict[str, Any]:
        return {"cluster": self._cluster, "topic": self._topic}

    def sightings(self, spark: SparkSession) -> DataFrame:
        return query.of_topic(spark, self._options, dense=self._dense, start=self._start)

    def has_ended(self) -> bool:
        return False

    def end(self) -> dict[str, Any]:
        return {}

    def severity(self, finding: dict[str, Any]) -> str:
        return str(finding["severity"])


Tell = Callable[[dict[str, Any]], None]
