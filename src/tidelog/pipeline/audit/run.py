"""An audit from the start of an engine to the report, with progress.

`audit` does all of it. Spark takes seconds to start: a caller that knows early that an audit will follow uses
an `Auditor` and calls its `warm_up`, which starts Spark in the background. For the same reason the modules
that need pyspark are imported when they are used, and the evidence is checked first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.errors import reason
from tidelog.evidence.folder import COMPLETE, RUNNING, EvidenceFolder, Manifest
from tidelog.evidence.parquet.kept import make_ready
from tidelog.evidence.parquet.recovery import seal_journals
from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.files import Place
from tidelog.storage.durable import write_file

if TYPE_CHECKING:
    from tidelog.pipeline.audit.engines import Engine
    from tidelog.pipeline.audit.evidence import Evidence
    from tidelog.pipeline.report.timeline import Timeline

SPARK: Final = "spark"
LOCAL: Final = "local"
ENGINES: Final = (SPARK, LOCAL)
_SAMPLE_SECONDS = 0.5
_QUICK_BYTES = 8 << 30
"""Up to so much evidence Java's quick compiler alone is faster: kernels, not Java, do the work."""
_REPORT = "report.html"


@dataclass(slots=True, frozen=True)
class Audited:
    folder: Path | str
    """A path, or an address."""
    verdict: dict[str, Any]
    """The content of `verdict.json`."""
    timeline: Timeline | None
    manifest: Manifest
    report: Path | str | None


class AuditWatcher(Protocol):
    """Receives the progress of an audit."""

    def phase(self, name: str, seconds: float | None) -> None:
        """One of spark, judge, draw begins."""

    def judged(self, part: float, rows: int) -> None:
        """Which part of the work is done, and how many sends and reads were looked at. Never goes back."""

    def said(self, text: str) -> None:
        """What the start of Spark reported."""


class _Silent:
    def phase(self, name: str, seconds: float | None) -> None: ...
    def judged(self, part: float, rows: int) -> None: ...
    def said(self, text: str) -> None: ...


def audit(
    folder: str | Path,
    *,
    report: Path | None = None,
    with_report: bool = True,
    engine: str = SPARK,
    master: str | None = None,
    remote: str | None = None,
    ui: bool = False,
    watcher: AuditWatcher | None = None,
) -> Audited:
    """Audit the evidence in a folder, given by its path or its address; write verdict, findings and report.
    Raises `PipelineError`."""
    place = Place.of(folder)
    auditor = Auditor(watcher or _Silent(), engine=engine, master=master, remote=remote, ui=ui)
    if place.local is None:
        return auditor.audit(place, report=report, with_report=with_report)
    with locked_evidence(place.local) as claimed:
        _seal(claimed)
        return auditor.audit(place, report=report, with_report=with_report)


def _seal(folder: EvidenceFolder) -> None:
    """Make tables of journals whose writer has finished and left that to others (`testing.ledger`,
    `tidelog.ledger`)."""
    if folder.manifest.kept:
        make_ready(folder)
    elif folder.manifest.state == COMPLETE and folder.journal.is_dir():
        seal_journals(folder)
        folder.write_manifest()


@contextmanager
def locked_evidence(folder: Path) -> Iterator[EvidenceFolder]:
    """Lock the evidence against other writers. Refuses a folder without evidence, and one that a trial still
    writes to."""
    claimed = EvidenceFolder.claim(folder)
    try:
        yield claimed
    finally:
        claimed.release()


def _refuse(found: Evidence) -> None:
    """Evidence of a trial that was killed, and evidence without sends."""
    if found.manifest.state == RUNNING and not found.manifest.keeps_ledger:
        raise PipelineError(f"the import into {found.place} is not finished: repeat the command to go on")
    if found.manifest.state == RUNNING:
        raise PipelineError(
            f"the trial in {found.place} was killed: first tidelog evidence recover {found.place}"
        )
    if not found.manifest.keeps_ledger and found.replicas:
        return
    damaged = any(name.startswith(f"{LEDGER.name}/") for name in found.left_out)
    if not damaged and not any(sum(file.rows) for file in found.tables[LEDGER.name]):
        raise PipelineError(f"{found.place} contains no sends: nothing to audit")


class Auditor:
    def __init__(
        self,
        watcher: AuditWatcher,
        *,
        engine: str = SPARK,
        master: str | None = None,
        remote: str | None = None,
        ui: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are further ones of Spark's own."""
        if engine == LOCAL and (master or remote or ui):
            raise PipelineError("--master, --remote and --ui are about Spark: leave out --engine local")
        self._watcher = watcher
        self._engine = engine
        self._wanted: dict[str, Any] = {"master": master, "remote": remote, "ui": ui, "settings": settings}
        self._thread: threading.Thread | None = None
        self._spark: Any = None
        self._failure: Exception | None = None
        self._words = ""

    # ------------------------------------------------------------ Spark

    def warm_up(self) -> None:
        """Start Spark in the background. Returns at once; `spark` raises the error if the start fails."""
        if self._thread is None and self._engine == SPARK:
            self._thread = threading.Thread(target=self._open, args=(True,), name="spark", daemon=True)
            self._thread.start()

    def _open(self, quick: bool) -> None:
        from tidelog.pipeline.spark.session import on_this_machine, open_session
        from tidelog.pipeline.spark.shipping import ship

        try:
            spark = open_session(app="tidelog audit", say=self._keep_message, quick=quick, **self._wanted)
            if not on_this_machine(self._wanted["master"], self._wanted["remote"]):
                ship(spark)
            self._spark = spark
        except Exception as error:
            self._failure = error

    def _keep_message(self, words: str) -> None:
        self._words = words

    def spark(self, *, quick: bool = True) -> Any:
        """The Spark session. Raises `PipelineError` if it does not start."""
        self._watcher.phase("spark", None)
        if self._thread is None:
            self._open(quick)
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

    def _engine_for(self, found: Evidence) -> Engine:
        from tidelog.pipeline.audit.engines import Local, OnSpark

        if self._engine == LOCAL:
            return Local()
        size = sum(found.sizes.values()) + sum(f.bytes for files in found.tables.values() for f in files)
        return OnSpark(self.spark(quick=size < _QUICK_BYTES))

    # ------------------------------------------------------------ the audit

    def audit(
        self, folder: str | Path | Place, *, report: Path | None = None, with_report: bool = True
    ) -> Audited:
        """Audit evidence that the caller has locked. Raises `PipelineError`."""
        from tidelog.pipeline.audit.evidence import load
        from tidelog.pipeline.audit.judging import judge
        from tidelog.pipeline.audit.timeline import build

        place = folder if isinstance(folder, Place) else Place.of(folder)
        try:
            found = load(place)
        except OSError as error:
            raise PipelineError(f"{place} cannot be read: {reason(error)}") from None
        _refuse(found)
        engine = self._engine_for(found)
        self._watcher.phase("judge", None)
        judgement = judge(found, engine, progress=self._watcher.judged)
        verdict = judgement.verdict.as_json()
        shown = place.local or place.address
        if not with_report:
            return Audited(shown, verdict, None, found.manifest, None)
        self._watcher.phase("draw", None)
        places = {part.number: part.place for part in judgement.context.parts}
        summed = judgement.summed
        timeline = build(found, summed.ledgers, summed.drawn, judgement.tally, judgement.windows, places)
        written = _write(report, verdict, timeline, found)
        return Audited(shown, verdict, timeline, found.manifest, written)


def _write(report: Path | None, verdict: dict[str, Any], timeline: Timeline, found: Evidence) -> Path | str:
    from tidelog.pipeline.report import render

    target = found.target
    page = render(verdict, timeline, found.manifest, str(found.place))
    path: Path | str = f"{target}/{_REPORT}" if report is None else report
    try:
        if report is None:
            target.write(_REPORT, page.encode())
        else:
            write_file(report, page)
        target.write("timeline.json", json.dumps(timeline.as_json()).encode())
    except OSError as error:
        raise PipelineError(f"{path}: {reason(error)}") from None
    return path if report is not None or target.local is None else target.local / _REPORT
