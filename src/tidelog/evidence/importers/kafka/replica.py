"""One replica from its files: segments, ends, epochs, and transactions that no marker ends.

Rules of the file:

* Files of the evidence are read, not those of the broker, so that what is written down here is what an audit
  will find there. Of closed segments only the end is looked at.
* Transactions are those that are open in the newest producer snapshot that can be read, and what the batches
  behind it open and end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.core.types import Offset, TopicPartition
from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.evidence.importers.kafka.log_folders import LogFolder
from tidelog.evidence.importers.kafka.placing import Placing, copy, place
from tidelog.evidence.importers.kafka.segment_files import SegmentFile
from tidelog.storage.checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_epochs,
)
from tidelog.storage.dump.small_files import snapshot_rows
from tidelog.storage.errors import StorageRefused
from tidelog.storage.names import SEGMENT

_INDEXES: Final = (".index", ".timeindex", ".txnindex")
_SMALL: Final = re.compile(
    r"\d{20}\.snapshot|\d{20}-\d{10}\.checkpoint|leader-epoch-checkpoint|partition\.metadata"
)


@dataclass(slots=True)
class OpenTransaction:
    producer_id: int
    producer_epoch: int
    first_offset: Offset
    last_offset: Offset
    started_ms: int | None
    """When its first batch was made; None: before the snapshot that names it."""
    last_ms: int


@dataclass(slots=True)
class Replica:
    tp: TopicPartition
    broker: int
    folder: Path
    """In the evidence."""
    start: Offset
    end: Offset
    high_watermark: Offset | None
    recovery_point: Offset | None
    epochs: list[tuple[int, Offset]]
    segments: list[tuple[Path, Offset, int]]
    """Each file with its end, exclusive, and its size."""
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    last_ms: int = -1
    """The newest timestamp behind the producer snapshot; -1: there is none."""
    modified_ms: int = 0
    """When the broker last wrote to its segments, by the source's file."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """What is missing, and why."""

    def rows(self, root: Path) -> Iterator[Row]:
        """Of the table `replicas`, without what is known of the partition as a whole."""
        segments: Iterator[Row] = (
            {
                "file": str(path.relative_to(root)),
                "base_offset": int(path.stem),
                "end_offset": end,
                "bytes": size,
            }
            for path, end, size in self.segments
        )
        for segment in segments if self.segments else ({},):
            yield {
                "broker": self.broker,
                "topic": self.tp.topic,
                "partition": self.tp.partition,
                **segment,
                "log_start_offset": self.start,
                "log_end_offset": self.end,
                "high_watermark": self.high_watermark,
                "recovery_point": self.recovery_point,
                "epochs": [epoch for epoch, _ in self.epochs],
                "epoch_starts": [start for _, start in self.epochs],
            }


def import_replica(source: LogFolder, tp: TopicPartition, target: Path, how: Placing) -> Replica | None:
    """Bring a replica's files into the evidence and read them; None: it has no segment. Raises `OSError`."""
    folder, notes = source.logs[tp], []
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(path.name for path in folder.iterdir())
    logs = [name for name in files if SEGMENT.fullmatch(name)]
    kept: list[Path] = []
    for number, name in enumerate(logs):
        last = number == len(logs) - 1
        try:
            place(folder / name, target / name, Placing.COPY if last else how)
        except FileNotFoundError:
            # Retention deletes the oldest files of a broker that runs.
            notes.append((str(folder / name), "it was deleted while it was imported"))
            continue
        kept.append(target / name)
        for suffix in _INDEXES:
            with suppress(FileNotFoundError):
                copy((folder / name).with_suffix(suffix), (target / name).with_suffix(suffix))
    for name in files:
        if _SMALL.fullmatch(name):
            with suppress(FileNotFoundError):
                copy(folder / name, target / name)
    if not kept:
        return None
    found = _read(source, tp, target, kept, notes)
    with suppress(FileNotFoundError):
        found.modified_ms = (folder / kept[-1].name).stat().st_mtime_ns // 1_000_000
    return found


def _read(
    source: LogFolder, tp: TopicPartition, target: Path, files: list[Path], notes: list[tuple[str, str]]
) -> Replica:
    segments = []
    for path in files:
        with SegmentFile(path) as segment:
            end, position = segment.end()
            size = segment.size
            if path == files[-1] and segment.zeros_from(position):
                notes.append(
                    (f"{size - position:,} bytes of {target}/{path.name}", "they are zeros, allocated")
                )
                size = position
        segments.append((path, end, size))
    last, end, size = segments[-1]
    if size < last.stat().st_size:
        with last.open("r+b") as file:  # the copy
            file.truncate(size)
    start = source.checkpoint(LOG_STARTS, tp)
    found = Replica(
        tp,
        source.broker,
        target,
        max(start or 0, int(files[0].stem)),
        end,
        source.checkpoint(HIGH_WATERMARKS, tp),
        source.checkpoint(RECOVERY_POINTS, tp),
        _epochs(target, files, notes),
        segments,
        notes=notes,
    )
    _find_open_transactions(found)
    return found


def _epochs(folder: Path, files: list[Path], notes: list[tuple[str, str]]) -> list[tuple[int, Offset]]:
    """As the broker wrote them down; where it did not, or that cannot be read, as its batches have them."""
    path = folder / LEADER_EPOCHS
    try:
        if path.exists() and path.stat().st_size:
            return [(entry.epoch, entry.start_offset) for entry in read_epochs(path)]
    except (StorageRefused, OSError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error).partition(";")[0]
        notes.append((f"leader epochs of {folder}", f"{said}; taken from its batches"))
    found: list[tuple[int, Offset]] = []
    for file in files:
        with SegmentFile(file) as segment:
            for header in segment.headers():
                if header.leader_epoch > (found[-1][0] if found else -1):
                    found.append((header.leader_epoch, header.base_offset))
    return found


# ---------------------------------------------------------------- transactions


def _find_open_transactions(replica: Replica) -> None:
    since, known = _snapshot(replica)
    behind = [int(path.stem) for path, _, _ in replica.segments[1:]] + [replica.end + 1]
    for (path, _, _), next_base in zip(replica.segments, behind, strict=True):
        if next_base <= since:
            continue
        with SegmentFile(path) as segment:
            for header in segment.headers():
                replica.last_ms = max(replica.last_ms, header.max_timestamp)
                if header.base_offset < since or not header.transactional:
                    continue
                if header.control:
                    known.pop(header.producer_id, None)
                    continue
                last = header.next_offset - 1
                if (begun := known.get(header.producer_id)) is None:
                    known[header.producer_id] = OpenTransaction(
                        header.producer_id,
                        header.producer_epoch,
                        header.base_offset,
                        last,
                        header.base_timestamp,
                        header.max_timestamp,
                    )
                else:
                    begun.last_offset, begun.last_ms = last, header.max_timestamp
    replica.open_transactions = sorted(known.values(), key=lambda each: each.first_offset)


def _snapshot(replica: Replica) -> tuple[Offset, dict[int, OpenTransaction]]:
    """The newest producer snapshot that is whole and not behind the log."""
    for path in sorted(replica.folder.glob("*.snapshot"), reverse=True):
        rows: list[dict[str, Any]] = list(snapshot_rows(path))
        offset = int(path.stem)
        if offset > replica.end or any(row["kind"] != "producer" for row in rows):
            continue
        return offset, {
            row["producer_id"]: OpenTransaction(
                row["producer_id"],
                row["producer_epoch"],
                row["transaction_first_offset"],
                row["last_offset"],
                None,
                row["timestamp"],
            )
            for row in rows
            if row["transaction_first_offset"] >= 0
        }
    return 0, {}
