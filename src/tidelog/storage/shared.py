"""What the logs of one folder share: bounds on memory and files, threads, and the folder's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.core.types import Millis
from tidelog.storage.background import Background, Job, inline
from tidelog.storage.durable import SharedNames
from tidelog.storage.log.tail import TAIL_BYTES, TailBudget
from tidelog.storage.resources import OpenFiles

if TYPE_CHECKING:
    from tidelog.storage.log.file_log import FileLog


def _nothing() -> None:
    """A log that stands alone has no folder of logs around it, hence no checkpoint of them."""


def _ignored(_trouble: str) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class Shared:
    broker_id: int = 0
    clock: Callable[[], Millis] = lambda: 0
    background: Background = inline
    verify_epochs: bool = True
    """Refuse batches on disk whose leader epoch is not what the epoch cache says of their offsets. Right for
    rules that keep epochs in order (KIP-279 and later); under older ones a log may truly be out of order."""
    tail_bytes: int = TAIL_BYTES
    tails: TailBudget = field(default_factory=TailBudget)
    open_files: OpenFiles = field(default_factory=OpenFiles)
    names: SharedNames = field(default_factory=SharedNames)
    """Those of the logs' own folders."""
    dirty: set[FileLog] = field(default_factory=set)
    """Logs with ``flush=always`` and appends that no sync has taken up yet."""
    checkpoint_soon: Callable[[], None] = _nothing
    checkpoint_now: Callable[[], None] = _nothing
    after_checkpoint: Callable[[Job], None] = inline
    """Write the checkpoints, soon, and then do this."""
    report: Callable[[str], None] = _ignored
    """Something went wrong in the background that harms nobody yet."""
