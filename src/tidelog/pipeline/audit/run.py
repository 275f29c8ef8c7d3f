"""An audit from the start of Spark to the report, with progress.

`audit` does all of it. Spark takes seconds to start: a caller that knows early that an audit will follow uses
an `Auditor` and calls its `warm_up`, which starts Spark in the background. For the same reason the modules
that need pyspark are imported when they are used, and the evidence is checked first.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.evidence.folder import RUNNING, EvidenceFolder
from tidelog.evidence.parquet.parts import dataset
from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.storage.durable import write_file

if TYPE_CHECKING:
    from tidelog.evidence.folder import Manifest
    from tidelog.pipeline.report.timeline import Timeline

_SAMPLE_SECONDS = 0.5
_SMALL_BYTES = 1 << 30
_REPORT = "report.html"


@dataclass(slots=True, frozen=True)
class Audited:
    folder: Path
    verdict: dict[str, Any]
    """The content of `verdict.json`."""
    timeline: Timeline | None
    manifest: Manifest
    report: Path | None


class AuditWatcher(Protocol):
    """Receives the progress of an audit."""

    def phase(self, name: str, seconds: float | None) -> None:
        """One of spark, open, judge, draw begins."""

    def tasks(self, done: int, all_: int) -> None:
        """How many tasks of Spark's running jobs are done. Called from another thread."""

    def said(self, text: str) -> None:
        """What the start of Spark reported."""


class _Silent:
    def phase(self, name: str, seconds: float | None) -> None: ...
    def tasks(self, done: int, all_: int) -> None: ...
    def said(self, text: str) -> None: ...


def audit(
    folder: Path,
    *,
    report: Path | None = None,
    with_report: bool = True,
    master: str | None = None,
    remote: str | None = None,
    ui: bool = False,
    watcher: AuditWatcher | None = None,
) -> Audited:
    """Audit the evidence in a folder; write verdict, findings and report. Raises `Refusal`."""
    with locked_evidence(folder):
        auditor = Auditor(watcher or _Silent(), master=master, remote=remote, ui=ui)
        return auditor.audit(folder, report=report, with_report=with_report)


@contextmanager
def locked_evidence(folder: Path) -> Iterator[EvidenceFolder]:
    """Lock the evidence against other writers. Refuses a folder without evidence, one that a trial still
    writes to, and one without sends."""
    claimed = EvidenceFolder.claim(folder)
    try:
        if claimed.manifest.state == RUNNING:
            raise PipelineError(f"the trial in {folder} was killed: first tidelog evidence recover {folder}")
        _refuse_empty(folder)
        yield claimed
    finally:
        claimed.release()


def _refuse_empty(folder: Path) -> None:
    try:
        sends = dataset(folder, LEDGER).count_rows()
    except OSError as error:
        raise PipelineError(
            f"{folder}/{LEDGER.name} cannot be read: {' '.join(str(error).split())}"
        ) from None
    except ValueError:
        return  # a damaged file: the audit skips and reports it
    if not sends:
        raise PipelineError(f"{folder} contains no sends: nothing to audit")


class Auditor:
    def __init__(
        self, watcher: AuditWatcher, *, master: str | None = None, remote: str | None = None, ui: bool = False
    ) -> None:
        self._watcher = watcher
        self._wanted: dict[str, Any] = {"master": master, "remote": remote, "ui": ui}
        self._thread: threading.Thread | None = None
        self._spark: Any = None
        self._failure: Exception | None = None
        self._words = ""

    # ------------------------------------------------------------ Spark

    def warm_up(self, folder: Path) -> None:
        """Start Spark in the background. Returns at once; `spark` raises the error if the start fails."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._open, args=(folder,), name="spark", daemon=True)
            self._thread.start()

    def _open(self, folder: Path) -> None:
        from tidelog.pipeline.spark.session import open_session

        try:
            self._spark = open_session(
                app="tidelog audit", say=self._keep_message, quick=is_small(folder), **self._wanted
            )
        except Exception as error:
            self._failure = error

    def _keep_message(self, words: str) -> None:
        self._words = words

    def spark(self, folder: Path) -> Any:
        """The Spark session. Raises `PipelineError` if it does not start."""
        self._watcher.phase("spark", None)
        if self._thread is None:
            self._open(folder)
        else:
            while self._thread.is_alive():  # a join without a timeout would block Ctrl-C
                self._thread.join(_SAMPLE_SECONDS)
        if self._spark is None:
            failure = self._failure
            if isinstance(failure, PipelineError):
                raise failure
            raise PipelineError(f"Spark does not start: {first_line(failure or Exception('unknown error'))}")
        self._watcher.said(self._words)
        return self._spark

    # ------------------------------------------------------------ the audit

    def audit(self, folder: Path, *, report: Path | None = None, with_report: bool = True) -> Audited:
        """Audit evidence that the caller has locked. Raises `PipelineError`."""
        from tidelog.pipeline.audit.inputs import load
        from tidelog.pipeline.audit.verdict import judge
        from tidelog.pipeline.spark.progress import report_tasks

        spark = self.spark(folder)
        with report_tasks(spark, self._watcher.tasks):
            self._watcher.phase("open", None)
            inputs = load(spark, folder)
            self._watcher.phase("judge", None)
            verdict = judge(inputs).as_json()
            timeline, written = None, None
            if with_report:
                self._watcher.phase("draw", None)
                timeline = _timeline(spark, folder, inputs)
                written = report or folder / "audit" / _REPORT
                _write(written, verdict, timeline, inputs.manifest, folder)
        return Audited(folder, verdict, timeline, inputs.manifest, written)


def is_small(folder: Path) -> bool:
    """Whether the evidence is small enough for an audit of a minute or two."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(root, name)).st_size
    return total < _SMALL_BYTES


def _timeline(spark: Any, folder: Path, inputs: Any) -> Timeline:
    from tidelog.pipeline.audit.timeline import build
    from tidelog.pipeline.audit.verdict import FOLDER, TABLE

    try:
        return build(inputs, spark.read.parquet(str((folder / FOLDER / TABLE).absolute())))
    except Exception as error:  # Spark's errors share no class
        raise PipelineError(f"the report cannot be drawn: {first_line(error)}") from error


def _write(path: Path, verdict: dict[str, Any], timeline: Timeline, manifest: Manifest, folder: Path) -> None:
    from tidelog.pipeline.audit.verdict import FOLDER
    from tidelog.pipeline.report import render

    page = render(verdict, timeline, manifest, str(folder))
    write_file(path, page)
    write_file(folder / FOLDER / "timeline.json", json.dumps(timeline.as_json()))
