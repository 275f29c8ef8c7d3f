"""Whether a folder can be judged at all, asked before Spark is started: that takes longer than the answer."""

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
    """The evidence, held so that nobody else writes there meanwhile. Refuses what is none, is still being
    written, or says nothing."""
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
        return  # a damaged file: the audit leaves it out and says so
    if not sends:
        raise Refusal(f"{folder} holds no send: there is nothing to judge")
