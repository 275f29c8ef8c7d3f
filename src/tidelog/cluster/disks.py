"""The disks of a cluster: what has been written down, what a power cut takes, and how one gets full.

The page cache is shared by all processes of a machine, so a file can be synced from outside; that is what the
command ``sync`` does, and what was in the files then is remembered. A power cut keeps, of each log, what the
broker itself had synced (its recovery point) and what was remembered, as far as it is still there unchanged.
Everything else is cut off the files of the dead process; indexes and snapshots of producers, which are built
again from the log, are removed. Checkpoints are replaced as a whole and synced before they are named, so they
survive.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from tidelog.cluster.broker_process import BrokerProcess
from tidelog.cluster.errors import NotPossibleHere
from tidelog.core.types import TopicPartition

_ROOM_FOR_NOTES = 512 * 1024
_DERIVED = ("*.index", "*.timeindex", "*.snapshot")


class Disks:
    def __init__(self) -> None:
        self._synced: dict[Path, bytes] = {}

    def sync(self, folder: Path) -> None:
        """Write down everything in a broker's folder."""
        for file in folder.glob("*/*.log"):
            with file.open("rb") as opened:
                self._synced[file] = opened.read()
                os.fsync(opened.fileno())

    def lose_power(self, folder: Path, recovery_points: Mapping[TopicPartition, int]) -> None:
        """What a machine has left when it is switched on again. No process may have the files open."""
        for log in folder.glob("*-*/"):
            topic, _, partition = log.name.rpartition("-")
            if partition.isdigit():
                recovery_point = recovery_points.get(TopicPartition(topic, int(partition)), 0)
                self._cut(log, recovery_point)

    def _cut(self, log: Path, recovery_point: int) -> None:
        for number, file in enumerate(sorted(log.glob("*.log"))):
            data = file.read_bytes()
            kept = self._kept(file, data, recovery_point)
            if kept < len(data):
                os.truncate(file, kept)
            if not kept and number:
                file.unlink()
        for pattern in _DERIVED:
            for file in log.glob(pattern):
                file.unlink()

    def _kept(self, file: Path, data: bytes, recovery_point: int) -> int:
        """How many bytes of a file survive: whole batches only."""
        from tidelog.wire.batch import CorruptBatch, RecordBatch  # few clusters lose power

        remembered = self._synced.get(file, b"")
        position = 0
        while position < len(data):
            try:
                batch = RecordBatch.parse(data, position)
            except CorruptBatch:
                break
            end = position + batch.size
            if batch.next_offset > recovery_point and data[:end] != remembered[:end]:
                break
            position = end
        return position


def fill_disk(process: BrokerProcess, data_dir: Path, notes: str | None) -> None:
    """No file of a broker grows beyond the smallest of its logs, but for those in `notes`, which are few."""
    noted = _sizes(Path(notes), f"*-{process.id}-*") if notes else []
    logs = [size for size in _sizes(data_dir, "*/*.log") if size]
    _limit_files(process, max(min(logs, default=0), max(noted, default=0) + _ROOM_FOR_NOTES))


def free_disk(process: BrokerProcess) -> None:
    _limit_files(process, None)


def _limit_files(process: BrokerProcess, size: int | None) -> None:
    try:
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))
    except (OSError, ValueError, AttributeError) as error:
        raise NotPossibleHere(f"the files of broker {process.id} cannot be limited: {error}") from None


def _sizes(folder: Path, pattern: str) -> list[int]:
    return [os.stat(file).st_size for file in folder.glob(pattern)]
