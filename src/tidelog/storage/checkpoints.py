"""Kafka's checkpoint files: a version line ``0``, a count, then one entry per line.

``leader-epoch-checkpoint`` in a partition's folder holds ``epoch startOffset``; four files in the log folder
hold ``topic partition offset``. They are replaced as a whole (``durable.write_durably``), so an unreadable
file was not written by a broker. It is refused and not repaired, because guessing could lose an epoch or a
high watermark.

The epochs of a log without records are not synced until it has some: thousands of partitions can be created
without a sync for each. If that file breaks off after a power cut, nothing of the log was durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.core.replication.epoch_cache import EpochEntry
from tidelog.core.types import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.durable import write_durably, write_synced
from tidelog.storage.errors import StorageRefused

LEADER_EPOCHS = "leader-epoch-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"

NEVER_CLEANED: Offset = -1

_VERSION = "0"
_BEGINNING = re.compile(rb"(?:0(?:\n[0-9 \n]*)?)?")


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The entries of one log in the four files of the log folder."""

    recovery_point: Offset = 0
    start_offset: Offset = 0
    """The log was deleted at least up to here; the files may start later."""
    high_watermark: Offset = 0
    cleaned_to: Offset = NEVER_CLEANED
    """Unless ``NEVER_CLEANED``, offsets may be missing in the log."""


class MalformedCheckpoint(StorageRefused):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is not a checkpoint: {reason}; restore the file, or remove it to start without"
        )


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """The offsets of a log folder's checkpoint; empty if the file does not exist."""
    offsets = {}
    for line in _read_lines(path):
        # Topic names contain no spaces, so a valid line has exactly three fields.
        match line.split(" "):
            case [topic, partition, offset]:
                offsets[TopicPartition(topic, _number(path, partition))] = _number(path, offset)
            case _:
                raise MalformedCheckpoint(path, f"the line {line!r} is not 'topic partition offset'")
    return offsets


def write_offsets(path: Path, offsets: Mapping[TopicPartition, Offset]) -> None:
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    write_durably(path, _lines(lines))


def read_epochs(path: Path) -> list[EpochEntry]:
    """The epochs of a partition's checkpoint, increasing in both fields; empty if the file does not exist."""
    entries: list[EpochEntry] = []
    for line in _read_lines(path):
        match line.split(" "):
            case [epoch, start_offset]:
                entry = EpochEntry(LeaderEpoch(_number(path, epoch)), _number(path, start_offset))
            case _:
                raise MalformedCheckpoint(path, f"the line {line!r} is not 'epoch startOffset'")
        if entries and not (
            entry.epoch > entries[-1].epoch and entry.start_offset > entries[-1].start_offset
        ):
            raise MalformedCheckpoint(path, f"the line {line!r} does not come after {tuple(entries[-1])}")
        entries.append(entry)
    return entries


def breaks_off(path: Path) -> bool:
    """Whether the file has the beginning of a checkpoint of epochs, or nothing, and no end: a power cut took
    the rest, which was not synced."""
    try:
        content = path.read_bytes().rstrip(b"\0")
    except FileNotFoundError:
        return False
    _, _, entries = content.partition(b"\n")
    count, _, entries = entries.partition(b"\n")
    whole = count.isdigit() and entries.count(b"\n") >= int(count)
    return not whole and _BEGINNING.fullmatch(content) is not None


def write_epochs(path: Path, entries: Iterable[EpochEntry]) -> None:
    write_durably(path, _epoch_lines(entries))


def write_epochs_unsynced(path: Path, entries: Iterable[EpochEntry]) -> None:
    """The caller makes it durable before any record is."""
    write_synced(path, _epoch_lines(entries), sync=False)


def _epoch_lines(entries: Iterable[EpochEntry]) -> bytes:
    return _lines([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def _read_lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise MalformedCheckpoint(path, "it is not text") from None
    lines = text.splitlines()
    if not lines or lines[0] != _VERSION:
        found = repr(lines[0]) if lines else "nothing"
        raise MalformedCheckpoint(path, f"it starts with {found}, not with the version {_VERSION!r}")
    if len(lines) < 2 or _number(path, lines[1]) != len(lines) - 2:
        said = lines[1] if len(lines) > 1 else "no"
        raise MalformedCheckpoint(path, f"it announces {said} entries and has {len(lines) - 2}")
    return lines[2:]


def _number(path: Path, text: str) -> int:
    # Not int(): it accepts spaces, underscores and digits of other scripts.
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise MalformedCheckpoint(path, f"{text!r} is not a number")
    return int(text)


def _lines(lines: list[str]) -> bytes:
    return "\n".join((_VERSION, str(len(lines)), *lines, "")).encode()
