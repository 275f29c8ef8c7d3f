"""After a trial that was killed: end what it left running, and save what it wrote down.

Brokers and generators end by themselves a moment after their trial. Until the last of them has, its journal
is still being written; so this waits a little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.cluster.directory import kill_leftovers
from tidelog.evidence.folder import RECOVERED, RUNNING, EvidenceError, EvidenceFolder
from tidelog.evidence.journals.slots import Slots, StillWritten, slot_files
from tidelog.evidence.parquet.recovery import Sealed, seal_journals
from tidelog.trials.collection import collect_replicas

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


@dataclass(slots=True)
class Recovered:
    processes_ended: int
    sealed: Sealed


def recover(path: Path) -> tuple[EvidenceFolder, Recovered]:
    """Bring the evidence of a killed trial into order. Raises `EvidenceError` if there is none, or if the
    trial still runs. Repeating it does no harm. The caller releases the folder."""
    folder = EvidenceFolder.claim(path)
    try:
        ended = kill_leftovers(folder.cluster)
        _wait_for_writers(folder)
        sealed = seal_journals(folder)
        manifest = folder.manifest
        if manifest.state == RUNNING:
            manifest.state = RECOVERED
            manifest.lacks("the rest of the trial", "its process was killed")
            for topic in manifest.topics:
                collect_replicas(folder, topic["name"], {})
        folder.write_manifest()
    except BaseException:
        folder.release()
        raise
    return folder, Recovered(ended, sealed)


def _wait_for_writers(folder: EvidenceFolder) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _is_written(folder.journal):
        if time.monotonic() > deadline:
            raise EvidenceError(f"processes of the trial in {folder.path} still run: wait for their end")
        time.sleep(_POLL_SECONDS)


def _is_written(journal: Path) -> bool:
    for path in slot_files(journal):
        try:
            Slots.open(path).release()
        except StillWritten:
            return True
        except Exception:
            continue  # damaged, or gone: not written at any rate
    return False


def ended_leftovers(folder: Path) -> list[Path]:
    """Folders of killed trials below `folder` that had left processes, which are ended now."""
    found = []
    for manifest in folder.glob("*/trial.json"):
        try:
            trial = EvidenceFolder.claim(manifest.parent)
        except EvidenceError:
            continue  # it runs, or is none
        if kill_leftovers(trial.cluster):
            found.append(manifest.parent)
        trial.release()
    return found
