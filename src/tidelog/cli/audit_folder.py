"""Checks of an evidence folder before an audit. They run first because Spark takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.cli.errors import Refusal
from tidelog.evidence.folder import RUNNING, EvidenceError, EvidenceFolder
from tidelog.evidence.parquet.parts import dataset
from tidelog.evidence.tables import LEDGER


@contextmanager
def judgeable(folder: Path) -> Iterator[EvidenceFolder]:
    """Lock the evidence against other writers. Refuses a folder without evidence, one that a trial still
    writes to, and one without sends."""
    try:
        claimed = EvidenceFolder.claim(folder)
    except EvidenceError as error:
        raise Refusal(str(error)) from None
    try:
        if claimed.manifest.state == RUNNING:
            raise Refusal(f"the trial in {folder} was killed: first tidelog evidence recover {folder}")
        refuse_empty(folder)
        yield claimed
    finally:
        claimed.release()


def refuse_empty(folder: Path) -> None:
    try:
        sends = dataset(folder, LEDGER).count_rows()
    except OSError as error:
        raise Refusal(f"{folder}/{LEDGER.name} cannot be read: {' '.join(str(error).split())}") from None
    except ValueError:
        return  # a damaged file: the audit skips and reports it
    if not sends:
        raise Refusal(f"{folder} contains no sends: nothing to audit")
