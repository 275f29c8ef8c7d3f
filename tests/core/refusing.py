"""The simulator's disk, which refuses the operations that a test chooses, until it is repaired."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.core.log_port import UNBOUNDED, Batch, StorageFailure
from tidelog.core.types import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.memory import MemoryBatch, MemoryLog, MemoryStorage

REASON = "no space left on device"


class RefusingStorage(MemoryStorage):
    """``refused`` names operations of a log or of the storage, each with the partitions it is refused for."""

    __slots__ = ("refused",)

    def __init__(self, *, sync_each_append: bool = False) -> None:
        super().__init__(sync_each_append=sync_each_append)
        self.refused: dict[str, tuple[TopicPartition, ...]] = {}

    def refuse(self, operation: str, *tps: TopicPartition) -> None:
        self.refused[operation] = tps

    def mend(self) -> None:
        self.refused.clear()

    def check(self, operation: str, tp: TopicPartition) -> None:
        if tp in self.refused.get(operation, ()):
            raise StorageFailure(f"cannot {operation} {tp}: {REASON}")

    def open(self, tp: TopicPartition) -> MemoryLog:
        self.check("open", tp)
        if tp not in self.logs:
            self.logs[tp] = RefusingLog(self, tp)
        return self.logs[tp]

    def delete(self, tp: TopicPartition) -> None:
        self.check("delete", tp)
        super().delete(tp)


class RefusingLog(MemoryLog):
    __slots__ = ("_disk", "_tp")

    def __init__(self, disk: RefusingStorage, tp: TopicPartition) -> None:
        super().__init__()
        self._disk = disk
        self._tp = tp

    def append_as_leader(self, batch: Batch, epoch: LeaderEpoch) -> MemoryBatch:
        self._disk.check("append", self._tp)
        return super().append_as_leader(batch, epoch)

    def append_as_follower(self, batch: Batch) -> None:
        self._disk.check("append", self._tp)
        super().append_as_follower(batch)

    def append_leader_change(self, epoch: LeaderEpoch) -> MemoryBatch:
        self._disk.check("append", self._tp)
        return super().append_leader_change(epoch)

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> Sequence[MemoryBatch]:
        self._disk.check("read", self._tp)
        return super().read(start, end, max_bytes)

    def truncate_to(self, offset: Offset) -> None:
        self._disk.check("truncate", self._tp)
        super().truncate_to(offset)

    def restart_at(self, offset: Offset) -> None:
        self._disk.check("truncate", self._tp)
        super().restart_at(offset)

    def advance_start(self, offset: Offset) -> None:
        self._disk.check("advance", self._tp)
        super().advance_start(offset)
