"""The folder of a kept ledger: evidence that several processes write at the same time, and go on writing.

Each producer and each consumer has files of its own in `journal/`, named after a random id, so processes need
no lock between them, and one that is started again continues in the same folder. `trial.json` is written by
the first of them. `tidelog audit` turns finished journals into tables, and copies those that a process still
writes.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tidelog._version import __version__
from tidelog.errors import Refusal, reason
from tidelog.evidence.folder import COMPLETE, MANIFEST, Manifest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,63}")


def opened(folder: Path) -> Path:
    """The folder of the journals, made if it is not there. Raises OSError, or `Refusal` for a folder that
    holds something else."""
    path = folder.absolute()
    journal = path / "journal"
    if (path / MANIFEST).exists():
        if not Manifest.read(path).kept:
            raise Refusal(f"{path} holds the evidence of a trial: choose another folder for a ledger")
        journal.mkdir(exist_ok=True)  # an audit removes it when it is empty
        return journal
    journal.mkdir(parents=True, exist_ok=True)
    manifest = Manifest("foreign", state=COMPLETE, kept=True, reads_to_end=False)
    manifest.started_us = time.time_ns() // 1000
    manifest.versions = {"tidelog": __version__}
    unfinished = path / f".{MANIFEST}.{secrets.token_hex(8)}"
    try:
        unfinished.write_text(json.dumps(asdict(manifest), indent=2) + "\n", "utf-8")
        with suppress(FileExistsError):  # another process was first
            os.link(unfinished, path / MANIFEST)
    finally:
        unfinished.unlink(missing_ok=True)
    return journal


def checked_name(name: str) -> str:
    """Raises `Refusal` for what cannot be the name of a producer or consumer."""
    if not _NAME.fullmatch(name):
        raise Refusal(f"name={name!r}: use letters, digits, points and underscores, at most 64")
    return name


def why(error: Exception) -> str:
    return reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
