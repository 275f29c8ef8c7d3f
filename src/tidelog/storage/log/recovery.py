"""Open the folder of one log: trust it after a clean shutdown, re-scan its end after a crash.

Everything below the recovery point was synced before the point was checkpointed, so only the size of the
indexes is checked there. From the segment of the recovery point on, every batch is read (header, CRC, offsets
without a gap unless the log was compacted, leader epochs in order) and the indexes are rebuilt. The log ends
before the first batch that fails: the file is truncated there and later segments are dropped, because records
after a hole were never acknowledged as durable. Every such loss becomes a finding in the broker's log, and so
do offsets that only the checkpoints still name (``missing_offsets``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tidelog.core.replication.epoch_cache import EpochCache
from tidelog.core.types import NO_EPOCH, NO_TOPIC_ID, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.settings.topic import LogConfig
from tidelog.storage.checkpoints import LEADER_EPOCHS, NEVER_CLEANED, Checkpointed, breaks_off, read_epochs
from tidelog.storage.errors import CorruptLog
from tidelog.storage.log.missing_offsets import (
    MissingOffsets,
    Witness,
    missing_at_the_end,
    missing_at_the_front,
)
from tidelog.storage.log.producer_snapshot import snapshot_offsets, snapshot_path
from tidelog.storage.log.renames import DELETED_SUFFIX
from tidelog.storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from tidelog.storage.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX, complete_swaps
from tidelog.storage.partition_metadata import read_topic_id
from tidelog.storage.resources import Shared

_LEFTOVERS = (DELETED_SUFFIX, ".tmp", CLEANED_SUFFIX, SWAP_SUFFIX)


@dataclass(frozen=True, slots=True)
class Recovered:
    """A finding of recovery: the tail was truncated, offsets are missing, or an index was rebuilt."""

    tp: TopicPartition
    log_end_offset: Offset
    truncated_bytes: int
    missing: tuple[MissingOffsets, ...]
    finding: str

    def __str__(self) -> str:
        return f"{self.tp}: {self.finding}"


@dataclass(slots=True)
class OpenedLog:
    """The content of the folder. The last segment is ready for writing."""

    segments: list[Segment]
    start_offset: Offset
    end_offset: Offset
    recovery_point: Offset
    epochs: EpochCache
    topic_id: TopicId = NO_TOPIC_ID
    new: bool = False
    """The folder was created just now."""
    clean: bool = False
    """If the log does not change, closing it need not write anything."""
    epochs_differ: bool = False
    """The epochs differ from their checkpoint, which must be written."""
    cleaned_to: Offset = NEVER_CLEANED
    owes_checkpoint: bool = False
    """The folder's checkpoints name offsets beyond the log's end: they must be written before the next
    append."""
    taken_out: list[Path] = field(default_factory=list)
    """Segments that were renamed for removal. They may explain the log's start, so they are removed only when
    that start is checkpointed."""
    snapshots: list[Offset] = field(default_factory=list)
    """Offsets of the producer snapshots that the log fully covers."""
    truncated_bytes: int = 0
    missing: list[MissingOffsets] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def new_log(folder: Path, config: LogConfig, shared: Shared) -> OpenedLog:
    """The first segment of a log whose folder was created just now, without a scan."""
    segment = Segment(folder, 0, shared.open_files, config.index_interval_bytes)
    segment.create(in_new_folder=True)
    return OpenedLog([segment], 0, 0, 0, EpochCache(), new=True)


class LogOpener:
    __slots__ = (
        "_checkpointed",
        "_config",
        "_epochs",
        "_epochs_known_to",
        "_epochs_lost",
        "_folder",
        "_opened",
        "_shared",
    )

    def __init__(self, folder: Path, config: LogConfig, shared: Shared, checkpointed: Checkpointed) -> None:
        self._folder = folder
        self._config = config
        self._shared = shared
        self._checkpointed = checkpointed
        epochs = folder / LEADER_EPOCHS
        self._epochs_lost = checkpointed.recovery_point == 0 and breaks_off(epochs)
        """Nothing of the log was durable, so all of it is scanned, and its epochs are found again."""
        self._epochs = EpochCache([] if self._epochs_lost else read_epochs(epochs))
        self._opened = OpenedLog([], 0, 0, 0, self._epochs, read_topic_id(folder))

    def open(self, *, clean: bool) -> OpenedLog:
        opened, checkpointed = self._opened, self._checkpointed
        opened.cleaned_to = checkpointed.cleaned_to
        written = self._epochs.entries
        try:
            self._open_segments(checkpointed, clean=clean)
        except BaseException:
            for segment in opened.segments:
                segment.close()
            raise
        self._epochs.truncate_from_start(opened.start_offset)
        self._epochs.truncate_from_end(opened.end_offset)
        opened.cleaned_to = min(opened.cleaned_to, opened.end_offset)
        opened.owes_checkpoint = opened.end_offset < max(checkpointed.recovery_point, checkpointed.cleaned_to)
        opened.epochs_differ = self._epochs_lost or self._epochs.entries != written
        opened.clean = opened.clean and not opened.findings and not opened.missing
        return opened

    def _open_segments(self, checkpointed: Checkpointed, *, clean: bool) -> None:
        opened, recovery_point = self._opened, checkpointed.recovery_point
        for finding in complete_swaps(self._folder):
            self._find(finding)
        self._remove_leftovers()
        found = [self._segment(base) for base in self._bases()]
        opened.segments = found
        if not found:
            found.append(self._segment(checkpointed.start_offset))
            found[0].create()
        if not opened.taken_out:
            opened.missing += missing_at_the_front(checkpointed, found[0].base_offset)
        # Recovery starts with the segment of the recovery point; earlier segments are trusted.
        first = max((slot for slot, s in enumerate(found) if s.base_offset <= recovery_point), default=0)
        self._load_sealed(found[: len(found) if clean else first + 1], clean=clean)
        if clean and self._trust(found[-1]):
            recovery_point = opened.end_offset
            opened.clean = True
        else:
            self._scan(found, first, recovery_point)
        opened.missing += missing_at_the_end(checkpointed, opened.end_offset)
        opened.snapshots = _sound_snapshots(self._folder, min(recovery_point, opened.end_offset))
        opened.start_offset = max(checkpointed.start_offset, opened.segments[0].base_offset)
        if opened.start_offset > opened.end_offset:
            self._restart(opened.start_offset)
        opened.recovery_point = min(recovery_point, opened.end_offset)

    # ------------------------------------------------------------ files

    def _remove_leftovers(self) -> None:
        """Remove what an interrupted change left: files renamed for removal or not yet renamed into place,
        and indexes without a segment."""
        for path in list(self._folder.iterdir()):
            lonely = (
                path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and not path.with_suffix(LOG_SUFFIX).exists()
            )
            if path.suffix == DELETED_SUFFIX and LOG_SUFFIX in path.suffixes:
                self._opened.taken_out.append(path)
            elif path.suffix in _LEFTOVERS or lonely:
                path.unlink()

    def _bases(self) -> list[Offset]:
        return sorted(int(path.stem) for path in self._folder.glob("*" + LOG_SUFFIX) if path.stem.isdecimal())

    def _segment(self, base_offset: Offset) -> Segment:
        interval = self._config.index_interval_bytes
        segment = Segment(self._folder, base_offset, self._shared.open_files, interval)
        segment.sparse = self._opened.cleaned_to != NEVER_CLEANED
        return segment

    def _find(self, finding: str, lost_bytes: int = 0) -> None:
        self._opened.findings.append(finding)
        self._opened.truncated_bytes += lost_bytes

    def _load_sealed(self, found: list[Segment], *, clean: bool) -> None:
        """Load all segments but the last, which becomes the active one."""
        for segment, following in pairwise(found):
            fault = segment.load_sealed(trusted=clean)
            if fault:
                self._find(fault)
            end = segment.end_if_sound()
            segment.release()
            # Kafka leaves a gap where it compacted away the end of a segment.
            if end is not None and end < following.base_offset and not segment.sparse:
                self._opened.missing.append(MissingOffsets(end, following.base_offset, Witness.NEXT_SEGMENT))

    # ------------------------------------------------------------ after a clean shutdown

    def _trust(self, last: Segment) -> bool:
        """Read only the very end of the log. False if it does not look like a clean shutdown."""
        try:
            fault = last.load_sealed(trusted=True)
            if fault:
                self._find(fault)
            last.activate()
            self._opened.end_offset = last.load_contents()
        except CorruptLog as error:
            self._find(f"not as a clean shutdown leaves it: {error}")
            return False
        return True

    # ------------------------------------------------------------ after a crash

    def _scan(self, found: list[Segment], first: int, recovery_point: Offset) -> None:
        opened = self._opened
        expected = found[first].base_offset
        # Beyond the recovery point the epoch checkpoint may be outdated, or missing: learn the epochs from
        # the batches.
        self._epochs_known_to = recovery_point if self._epochs.entries else 0
        self._epochs.truncate_from_end(recovery_point)
        for slot in range(first, len(found)):
            segment = found[slot]
            if segment.base_offset != expected:
                reason = f"{segment.path.name} where offset {expected} must come"
                self._cut_after(slot - 1, reason)
                break
            whole = segment.size = segment.path.stat().st_size
            segment.activate()
            sound, expected, reason = self._scan_segment(segment)
            if sound < whole:
                self._find(f"cut {whole - sound} bytes at offset {expected}: {reason}", whole - sound)
                # Drop later segments first: a crash here must not leave a hole in the log.
                self._cut_after(slot, "")
                segment.cut(sound)
                break
            if slot < len(found) - 1:
                indexes = segment.seal()
                # On a full disk memory keeps them, and the next start scans the log again.
                with suppress(OSError):
                    segment.save_indexes(indexes)
        opened.end_offset = expected

    def _scan_segment(self, segment: Segment) -> tuple[int, Offset, str]:
        """Index the valid batches. Returns their size, the next offset, and why the scan ended."""
        segment.start_indexes()
        segment.remove_index_files()
        position, end, reason = 0, segment.base_offset, ""
        try:
            for position, batch in segment.scan(0, end):
                disorder = self._learn_epoch(batch.leader_epoch, batch.base_offset)
                if disorder:
                    raise CorruptLog(segment.path, position, disorder)
                segment.note(batch, position)
                position += len(batch.data)
                end = batch.next_offset
        except CorruptLog as error:
            reason = str(error)
        return position, end, reason

    def _learn_epoch(self, epoch: int, base_offset: Offset) -> str:
        """Add the epoch as a follower does with fetched batches; returns what is wrong with it."""
        known = self._epochs.epoch_at(base_offset)
        if epoch in (NO_EPOCH, known):
            return ""
        if base_offset < self._epochs_known_to:
            # The epochs are known, except those below the log's start, which were dropped.
            wrong = known != NO_EPOCH and self._shared.verify_epochs
        else:
            wrong = epoch < known and self._shared.verify_epochs
            if not wrong:
                self._epochs.assign(LeaderEpoch(epoch), base_offset)
        return f"leader epoch {epoch} in {known}" if wrong else ""

    def _cut_after(self, slot: int, reason: str) -> None:
        """Drop all segments after this one."""
        opened = self._opened
        kept, dropped = opened.segments[: slot + 1], opened.segments[slot + 1 :]
        opened.segments = kept
        if not kept[-1].active:
            kept[-1].activate()
        for segment in reversed(dropped):
            size = segment.path.stat().st_size
            why = f": {reason}" if reason else ""
            self._find(f"dropped {segment.path.name} of {size} bytes{why}", size)
            segment.remove_files()

    def _restart(self, offset: Offset) -> None:
        """All remaining segments are below the log's start: begin with an empty one."""
        self._find(f"nothing left above the log's start {offset}")
        for segment in reversed(self._opened.segments):
            segment.remove_files()
        segment = self._segment(offset)
        segment.create()
        self._opened.segments = [segment]
        self._opened.end_offset = offset


def _sound_snapshots(folder: Path, durable: Offset) -> list[Offset]:
    """The valid snapshots; the others are removed. A snapshot beyond the recovery point may describe batches
    that were truncated since."""
    found = snapshot_offsets(folder)
    for offset in found:
        if offset > durable:
            snapshot_path(folder, offset).unlink(missing_ok=True)
    return [offset for offset in found if offset <= durable]
