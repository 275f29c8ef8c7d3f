"""The folder of a trial's evidence: its layout, its lock, and `trial.json`, which describes the trial.

    trial.json                    plan, state, and what is missing and why
    ledger/ reads/ events/ …      the tables (`tables`), Parquet
    cluster/                      the data of the brokers: the replica logs
    logs/                         log files of brokers and clients
    journal/                      rows that are not in the tables yet; removed when the trial ends

The process that runs the trial holds a lock on `.lock` as long as it lives, so a free lock means that the
trial has ended or was killed.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tidelog.errors import Refusal, not_json, reason
from tidelog.evidence.tables import READABLE_VERSIONS, SCHEMA_VERSION, TABLES
from tidelog.storage import lock_file

MANIFEST: Final = "trial.json"
LOCK: Final = ".lock"

RUNNING: Final = "running"
COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
"""Stopped early by its own process: the evidence up to then is complete."""
FAILED: Final = "failed"
RECOVERED: Final = "recovered"
"""Its process was killed; the tables hold the content of its journals."""


class EvidenceError(Refusal):
    """The folder cannot be used. The message says in one line why, and what to do."""


@dataclass(slots=True)
class Manifest:
    """`trial.json`. Fields that a stage does not know stay empty."""

    stage: str
    """sim, cluster or foreign."""
    state: str = RUNNING
    schema_version: int = SCHEMA_VERSION
    generation: str = ""
    seed: int | None = None
    started_us: int = 0
    load_started_us: int | None = None
    load_ended_us: int | None = None
    ended_us: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """The plan: duration, rate, sizes, faults, settings of brokers and clients."""
    topics: list[dict[str, Any]] = field(default_factory=list)
    """name, partitions, replication_factor, configs; and `ends`, the committed end of each partition, and
    `starts`, its first offset, if known."""
    brokers: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    final_reader: str | None = None
    """The consumer that read all partitions again at the end: the final log as a client sees it."""
    reads_to_end: bool = True
    """Whether it is known to have reached the end of every log. If not, later records may exist."""
    kept: bool = False
    """Whether applications keep it, with `tidelog.ledger`: it grows as long as they run, other producers may
    write to the same topics, and records are named as `ledger.identity` says."""
    keeps_ledger: bool = True
    """Whether sends were recorded. Log folders of a cluster that were imported have none."""
    schedule: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    """Missing evidence: `what`, and `why`."""

    def lacks(self, what: str, why: str) -> None:
        entry = {"what": what, "why": why}
        if entry not in self.missing:
            self.missing.append(entry)

    def write(self, folder: Path) -> None:
        """Replace the file as a whole: a reader sees the old content or the new."""
        unfinished = folder / f".{MANIFEST}.tmp"
        unfinished.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n", "utf-8")
        os.replace(unfinished, folder / MANIFEST)

    @classmethod
    def read(cls, folder: Path) -> Self:
        path = folder / MANIFEST
        try:
            found = json.loads(path.read_text("utf-8"))
            version = found["schema_version"]
            if version not in READABLE_VERSIONS:
                raise EvidenceError(
                    f"{path}: evidence of schema {version}, this version reads "
                    f"{' and '.join(map(str, READABLE_VERSIONS))}"
                )
            return cls(**{name: value for name, value in found.items() if name in cls.__slots__})
        except FileNotFoundError:
            if not folder.exists():
                raise EvidenceError(f"{folder}: there is no such folder") from None
            raise EvidenceError(f"{folder} is not a folder of evidence: it has no {MANIFEST}") from None
        except NotADirectoryError:
            raise EvidenceError(f"{folder} is a file: give the folder that a trial left") from None
        except OSError as error:
            raise EvidenceError(f"{path}: {reason(error)}") from None
        except (ValueError, LookupError, TypeError) as error:
            raise EvidenceError(f"{path} is invalid: {not_json(error)}") from None


class EvidenceFolder:
    """Use `create` for a new trial, `claim` for the folder of an earlier one."""

    def __init__(self, path: Path, lock: int, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> Self:
        """A new, empty folder. Raises `EvidenceError`."""
        path = path.absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise EvidenceError(_occupied(path))
            lock = _locked(path)
            for folder in (path / "journal" / "events", path / "logs"):
                folder.mkdir(parents=True)
            manifest.write(path)
        except FileExistsError:
            raise EvidenceError(f"{path}: this is a file, not a folder") from None
        except OSError as error:
            raise EvidenceError(f"{path}: {reason(error)}") from None
        return cls(path, lock, manifest)

    @classmethod
    def claim(cls, path: Path) -> Self:
        """Open the folder of a trial that no longer runs. Raises `EvidenceError`."""
        path = path.absolute()
        manifest = Manifest.read(path)
        try:
            return cls(path, _locked(path), manifest)
        except OSError as error:
            raise EvidenceError(f"{path}: {reason(error)}") from None

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def events_journal(self) -> Path:
        """Where brokers write their events."""
        return self.journal / "events"

    @property
    def cluster(self) -> Path:
        return self.path / "cluster"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def write_manifest(self) -> None:
        self.manifest.write(self.path)

    def discard(self) -> None:
        """Remove the folder, because the trial did not start."""
        for name in ("journal", "logs", "cluster", *(table.name for table in TABLES)):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / MANIFEST).unlink(missing_ok=True)
        self.release()
        with suppress(OSError):
            self.path.rmdir()

    def release(self) -> None:
        if self._lock >= 0:
            with suppress(OSError):
                (self.path / LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def _locked(path: Path) -> int:
    try:
        return lock_file.acquire(path / LOCK)
    except BlockingIOError:
        raise EvidenceError(f"a trial writes to {path}: wait for its end, or choose another folder") from None


def _occupied(path: Path) -> str:
    with suppress(EvidenceError):
        if Manifest.read(path).state == RUNNING:
            return (
                f"{path} holds a trial that runs or was killed: choose another folder, "
                f"or see what it left with tidelog evidence recover {path}"
            )
        return f"{path} holds complete evidence: choose another folder"
    return f"{path} is not empty: choose another folder"
