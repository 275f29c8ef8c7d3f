"""Read the folder of a partition, or a log directory with many partitions.

One row sums up a partition: start and end offset, epochs, size, and the checkpointed high watermark. This
module checks what concerns several files: that segments follow each other, that the epochs of batches match
`leader-epoch-checkpoint`, that checkpoints name no offset beyond the log's end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog.storage.checkpoints import CLEANED, HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS
from tidelog.storage.dump.files import UnknownFile, file_rows
from tidelog.storage.dump.rows import FINDING, Row, Rows, finding, gone, note
from tidelog.storage.dump.segments import Extent, base_offset_of, segment_rows
from tidelog.storage.dump.small_files import OFFSET_CHECKPOINTS, PROPERTIES, epoch_rows, offset_rows
from tidelog.storage.log.segment import LOG_SUFFIX
from tidelog.storage.names import LEAVING_FOLDER, PARTITION_FOLDER

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def folder_rows(folder: Path, *, records: bool = False) -> Rows:
    """Detailed rows of a partition's folder, or one row per partition of a log directory."""
    if _has_segments(folder):
        checkpoints = Checkpoints(folder.parent)
        yield from checkpoints.findings
        yield from partition_rows(folder, checkpoints, records=records, detailed=True)
        return
    log_dirs = _log_dirs(folder)
    if not log_dirs:
        yield finding(folder, "there is no log here: neither segments nor folders of partitions")
    for path in log_dirs:
        yield {"kind": "log dir", "file": str(path)}
        yield from _log_dir_rows(path, records=records)


def _log_dirs(folder: Path, depth: int = 2) -> list[Path]:
    """The folder itself if it is a log directory, else those below it, as in a folder with several
    brokers."""
    if _is_log_dir(folder):
        return [folder]
    below = sorted(path for path in folder.iterdir() if path.is_dir()) if depth else []
    return [found for path in below for found in _log_dirs(path, depth - 1)]


def _has_segments(folder: Path) -> bool:
    return any(base_offset_of(path) is not None for path in folder.glob(f"*{LOG_SUFFIX}"))


def _is_log_dir(folder: Path) -> bool:
    known = any((folder / name).exists() for name in (*OFFSET_CHECKPOINTS, "meta.properties"))
    return known or bool(_partitions(folder))


def _partitions(folder: Path) -> list[Path]:
    """The folders of partitions, ordered by topic and partition."""
    found = [(PARTITION_FOLDER.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir()]
    named = [(match["topic"], int(match["partition"]), path) for match, path in found if match]
    return [path for _, _, path in sorted(named) if _has_segments(path) or (path / LEADER_EPOCHS).exists()]


def _log_dir_rows(folder: Path, *, records: bool) -> Rows:
    for name in PROPERTIES:
        if (folder / name).exists():
            yield from file_rows(folder / name)
    if not (folder / CLEAN_SHUTDOWN).exists():
        yield note(folder, "no clean shutdown: a broker runs here, or crashed and will check its logs")
    checkpoints = Checkpoints(folder)
    yield from checkpoints.findings
    partitions = _partitions(folder)
    for partition in partitions:
        yield from partition_rows(partition, checkpoints, records=records, detailed=records)
    for leaving in sorted(path for path in folder.iterdir() if LEAVING_FOLDER.fullmatch(path.name)):
        yield note(leaving, "being deleted, not read")
    names = {partition.name for partition in partitions}
    for topic, number in checkpoints.orphans(names):
        yield note(folder, f"checkpoints know {topic}-{number}, of which there is no folder")


class Checkpoints:
    """The checkpoints of a log directory."""

    def __init__(self, folder: Path) -> None:
        self.findings: list[Row] = []
        self._offsets: dict[str, dict[tuple[str, int], int]] = {}
        for name in OFFSET_CHECKPOINTS:
            self._offsets[name] = {}
            if (folder / name).exists():
                for row in offset_rows(folder / name):
                    if row["kind"] == FINDING:
                        self.findings.append(row)
                    else:
                        self._offsets[name][row["topic"], row["partition"]] = row["offset"]

    def offset(self, name: str, partition: tuple[str, int]) -> int | None:
        return self._offsets[name].get(partition)

    def orphans(self, folders: set[str]) -> list[tuple[str, int]]:
        known = {partition for name in (HIGH_WATERMARKS,) for partition in self._offsets[name]}
        return sorted(each for each in known if f"{each[0]}-{each[1]}" not in folders)


# ---------------------------------------------------------------- one partition


def partition_rows(folder: Path, checkpoints: Checkpoints, *, records: bool, detailed: bool) -> Rows:
    """One row about a partition and its findings; with `detailed` also a row for each segment and small
    file."""
    if not folder.exists():
        yield gone(folder)
        return
    found = PARTITION_FOLDER.fullmatch(folder.name)
    name = (found["topic"], int(found["partition"])) if found else (folder.name, -1)
    seen, findings = Extent(), 0
    segments = sorted(path for path in folder.glob(f"*{LOG_SUFFIX}") if base_offset_of(path) is not None)
    for row in _content(folder, segments, seen, checkpoints, name, records=records):
        findings += row["kind"] == FINDING
        if detailed or row["kind"] == FINDING:
            yield row
    start = checkpoints.offset(LOG_STARTS, name)
    base = base_offset_of(segments[0]) if segments else 0
    end = max(seen.next_offset, base_offset_of(segments[-1]) or 0) if segments else 0
    summary = {
        "kind": "partition",
        "file": str(folder),
        "topic": name[0],
        "partition": name[1],
        "start_offset": max(base or 0, start or 0),
        "end_offset": end,
        "high_watermark": checkpoints.offset(HIGH_WATERMARKS, name),
        "recovery_point": checkpoints.offset(RECOVERY_POINTS, name),
        "epochs": [list(epoch) for epoch in seen.epochs],
        "segments": len(segments),
        "batches": seen.batches,
        "records": seen.records,
        "bytes": seen.bytes,
        "max_timestamp": seen.max_timestamp,
    }
    for problem in _contradictions(folder, summary):
        findings += 1
        yield problem
    yield {**summary, "findings": findings}


def _content(
    folder: Path,
    segments: list[Path],
    seen: Extent,
    checkpoints: Checkpoints,
    name: tuple[str, int],
    *,
    records: bool,
) -> Rows:
    """Rows of the segments, or of their records, and of every other file, verified."""
    if not segments:
        yield finding(folder, "there is no segment")
    compacted = checkpoints.offset(CLEANED, name) is not None
    epochs = _epochs(folder)
    for path in segments:
        yield from _segment(path, seen, epochs, records=records, compacted=compacted)
    for path in sorted(folder.iterdir()):
        if path in segments or path.is_dir():
            continue
        try:
            for row in file_rows(path):
                if row["kind"] == FINDING or row["kind"] == "epoch":
                    yield row
        except UnknownFile:
            if not path.name.endswith((".tmp", ".swap", ".cleaned", ".checkpoint")):
                yield note(path, "not a file of a log")


def _segment(
    path: Path, seen: Extent, epochs: list[tuple[int, int]], *, records: bool, compacted: bool
) -> Rows:
    batches, first, count, size = seen.batches, True, seen.records, seen.bytes
    row: Row = {"kind": "segment", "file": str(path), "base_offset": base_offset_of(path)}
    if (base := base_offset_of(path)) is not None and seen.next_offset > base:
        yield finding(path, f"the segment before it reaches to {seen.next_offset - 1}")
    contradiction: _Contradiction | None = None
    for each in segment_rows(path, seen, records=records, gaps_allowed=compacted):
        if each["kind"] == "batch" and first:
            row["first_offset"], first = each["base_offset"], False
        if each["kind"] == "batch":
            before, contradiction = contradiction, _contradicts_epochs(each, epochs)
            if contradiction and contradiction != before:  # one finding for batches with the same error
                yield finding(path, f"batch {each['base_offset']} {contradiction.words}", each["position"])
        if records or each["kind"] not in ("batch", "message"):
            yield each
    row |= {"end_offset": seen.next_offset if not first else base_offset_of(path)}
    row |= {"batches": seen.batches - batches, "records": seen.records - count, "bytes": seen.bytes - size}
    yield row


def _epochs(folder: Path) -> list[tuple[int, int]]:
    """(start offset, epoch), in order; empty if the file does not exist."""
    path = folder / LEADER_EPOCHS
    rows = epoch_rows(path) if path.exists() else iter(())
    return sorted((row["start_offset"], row["epoch"]) for row in rows if row["kind"] == "epoch")


@dataclass(frozen=True, slots=True)
class _Contradiction:
    """The epoch that a batch carries, and the one that `leader-epoch-checkpoint` gives it."""

    carried: int
    noted: int

    @property
    def words(self) -> str:
        return f"is of epoch {self.carried}, {LEADER_EPOCHS} says epoch {self.noted}"


def _contradicts_epochs(batch: Row, epochs: list[tuple[int, int]]) -> _Contradiction | None:
    """Whether `leader-epoch-checkpoint` gives a batch another epoch than the one it carries.

    Batches that end before the first epoch are not findings. DeleteRecords and retention drop the epochs
    below the new start of the log at once, while the batches there stay until their segment is deleted, and
    log-start-offset-checkpoint may be written a minute later. The last offset counts, because the new start
    may lie inside a batch.
    """
    if batch["epoch"] < 0 or not batch["crc_ok"]:
        return None
    slot = bisect_right(epochs, batch["last_offset"], key=lambda entry: entry[0]) - 1
    if slot < 0 or epochs[slot][1] == batch["epoch"]:
        return None
    return _Contradiction(batch["epoch"], epochs[slot][1])


def _contradictions(folder: Path, summary: Row) -> Iterator[Row]:
    end = summary["end_offset"]
    for name, what in (("high_watermark", HIGH_WATERMARKS), ("recovery_point", RECOVERY_POINTS)):
        offset = summary[name]
        if offset is not None and offset > end:
            yield finding(folder, f"{what} says {offset}, but the log ends at {end}")
