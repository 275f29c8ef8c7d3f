"""The folder that a trial leaves: what is where, who may write, and `trial.json`, which says what it was.

    trial.json                    what was tried, how it ended, what is missing and why
    ledger/ reads/ events/ …      the tables (`tables`), Parquet
    cluster/                      the data of the brokers: the replica logs
    logs/                         what brokers and clients said
    journal/                      what is not in the tables yet; gone when the trial has ended in order

Whoever runs the trial holds a lock on `.lock` for as long as it lives, so a trial that was killed is told
from one that runs by asking for the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tidelog.evidence.tables import READABLE_VERSIONS, SCHEMA_VERSION, TABLES

MANIFEST: Final = "trial.json"
LOCK: Final = ".lock"

RUNNING: Final = "running"
COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
"""Ended early, by its own hand: everything up to then is there."""
FAILED: Final = "failed"
RECOVERED: Final = "recovered"
"""Its process was killed; the tables hold what its journals held."""


class EvidenceError(Exception):
    """The folder cannot be used. The message is one line that says why and what to do."""


@dataclass(slots=True)
class Manifest:
    """`trial.json`. What a stage knows nothing of stays empty."""

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
    """What was asked for: duration, rate, sizes, faults, settings of brokers and clients."""
    topics: list[dict[str, Any]] = field(default_factory=list)
    """name, partitions, replication_factor, configs; and `ends`, the committed end of each partition, and
    `starts`, its first offset, where somebody knew."""
    brokers: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    final_reader: str | None = None
    """The consumer that read everything once more at the end: the final log, as a client sees it."""
    reads_to_end: bool = True
    """Whether it is known to have reached the end of every log. If not, what lies behind may be there."""
    schedule: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    """What an audit would like to have and does not: `what`, and `why`."""

    def lacks(self, what: str, why: str) -> None:
        entry = {"what": what, "why": why}
        if entry not in self.missing:
            self.missing.append(entry)

    def write(self, folder: Path) -> None:
        """Replace the file as a whole: a reader sees the old one or the new one."""
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
            raise EvidenceError(f"{path} cannot be understood: {error}") from None


class EvidenceFolder:
    """Made by `create` for a new trial, by `claim` for one that somebody else left."""

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
        """The folder of a trial that does not run any more. Raises `EvidenceError`."""
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
        """Remove the folder again: there was no trial, so there is no evidence."""
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
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise EvidenceError(f"a trial writes to {path}: wait for its end, or choose another folder") from None
    return fd


def _occupied(path: Path) -> str:
    with suppress(EvidenceError):
        if Manifest.read(path).state == RUNNING:
            return (
                f"{path} holds a trial that runs or was killed: choose another folder, "
                f"or see what it left with tidelog evidence recover {path}"
            )
        return f"{path} holds the evidence of another trial: choose another folder"
    return f"{path} is not empty: choose another folder"


def reason(error: OSError) -> str:
    """Why a file cannot be used, and what would help."""
    said = (error.strerror or str(error)).lower()
    hint = {errno.ENOSPC: "; make room or choose another folder"}.get(error.errno or 0, "")
    return said + hint
