"""Resources that the logs of one folder share: limits on memory and open files, threads, checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidelog.core.types import Millis
from tidelog.storage.background import Background, Job, JobQueue, inline
from tidelog.storage.durable import SharedNames
from tidelog.storage.log.tail import TAIL_BYTES, TailBudget
from tidelog.storage.reserves import Reserves

if TYPE_CHECKING:
    from tidelog.storage.log.file_log import FileLog

OPEN_SEGMENTS_MAX = 256


class Closable(Protocol):
    def close_file(self) -> None: ...


class OpenFiles:
    """A limit on open files: sealed segments are opened when read, and the least recently read are closed.

    The active segment of a log stays open and is not counted. The limit counts segments: an open one has up
    to three files, because each mapped index has its own.
    """

    __slots__ = ("_limit", "_recent", "reserves")

    def __init__(self, limit: int = OPEN_SEGMENTS_MAX, reserves: Reserves | None = None) -> None:
        self._limit = limit
        self.reserves = reserves
        """Space for the active segments. None: they have no reserve."""
        self._recent: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def used(self, segment: Closable) -> None:
        recent = self._recent
        recent[segment] = None
        recent.move_to_end(segment)
        while len(recent) > self._limit:
            oldest, _ = recent.popitem(last=False)
            oldest.close_file()

    def forget(self, segment: Closable) -> None:
        self._recent.pop(segment, None)


def _nothing() -> None:
    """A log outside a folder of logs has no checkpoints to write."""


def _ignored(_trouble: str) -> None:
    """A log outside a folder of logs has no broker to report to."""


def _unshared() -> JobQueue:
    return JobQueue(inline, lambda _: None)


@dataclass(slots=True)
class Shared:
    broker_id: int = 0
    clock: Callable[[], Millis] = lambda: 0
    background: Background = inline
    epochs: JobQueue = field(default_factory=_unshared)
    """Writes of epochs, one after the other: hundreds are due when a broker dies, and the syncs of several
    threads hinder each other."""
    verify_epochs: bool = True
    """Refuse batches on disk whose leader epoch differs from the epoch cache. Correct for rules that keep
    epochs in order (KIP-279 and later); under older rules a log may have epochs out of order."""
    tail_bytes: int = TAIL_BYTES
    tails: TailBudget = field(default_factory=TailBudget)
    open_files: OpenFiles = field(default_factory=OpenFiles)
    names: SharedNames = field(default_factory=SharedNames)
    """The names of the logs' own folders."""
    dirty: set[FileLog] = field(default_factory=set)
    """Logs with ``flush=always`` and appends that no sync covers yet."""
    flushed_by_interval: dict[FileLog, None] = field(default_factory=dict)
    """Open logs with ``flush=interval``."""
    any_failed: bool = False
    """A log has failed, perhaps one that was deleted since."""
    checkpoint_soon: Callable[[], None] = _nothing
    checkpoint_now: Callable[[], None] = _nothing
    after_checkpoint: Callable[[Job], None] = inline
    """Schedule a write of the checkpoints, then run the job."""
    report: Callable[[str], None] = _ignored
    """Report an error of optional background work."""
