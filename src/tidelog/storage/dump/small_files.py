"""The small files of a log: checkpoints, producer snapshots, `meta.properties` and similar files."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from tidelog.settings.properties import PropertiesError, read
from tidelog.storage.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from tidelog.storage.dump.rows import Rows, finding, unreadable

OFFSET_CHECKPOINTS = (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, CLEANED)
PROPERTIES = ("meta.properties", "partition.metadata")

_SNAPSHOT_HEADER = Struct(">hI")
_SNAPSHOT_COUNT = Struct(">i")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


def epoch_rows(path: Path) -> Rows:
    before = (-1, -1)
    for row in _checkpoint(path, 2):
        if row["kind"] != "entry":
            yield row
            continue
        epoch, start = row["numbers"]
        yield {"kind": "epoch", "file": str(path), "epoch": epoch, "start_offset": start}
        if epoch <= before[0] or start <= before[1]:
            yield finding(
                path, f"epoch {epoch} from {start} does not come after epoch {before[0]} from {before[1]}"
            )
        before = (epoch, start)


def offset_rows(path: Path) -> Rows:
    for row in _checkpoint(path, 3):
        if row["kind"] != "entry":
            yield row
            continue
        partition, offset = row["numbers"]
        entry = {"topic": row["topic"], "partition": partition, "offset": offset}
        yield {"kind": "checkpoint", "file": str(path), **entry}


def _checkpoint(path: Path, fields: int) -> Rows:
    """A version, a count, then lines of `fields` words, all numbers except a topic."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        yield finding(path, "it is not text")
        return
    except OSError as error:
        yield unreadable(path, error)
        return
    if not lines:  # as Kafka creates it
        return
    if lines[0] != "0":
        yield finding(path, f"it begins with {lines[0][:40]!r} instead of version 0", 0)
        return
    announced = lines[1] if len(lines) > 1 else ""
    if announced != str(len(lines) - 2):
        yield finding(path, f"it announces {announced or 'no'} entries and has {max(len(lines) - 2, 0)}")
    for number, line in enumerate(lines[2:], start=3):
        words = line.split(" ")
        numbers = words if fields == 2 else words[1:]
        if len(words) != fields or not all(word.removeprefix("-").isdecimal() for word in numbers):
            yield finding(path, f"line {number} is no entry: {line[:100]!r}")
            continue
        yield {"kind": "entry", "topic": words[0], "numbers": tuple(map(int, numbers))}


def snapshot_rows(path: Path) -> Rows:
    try:
        content = path.read_bytes()
    except OSError as error:
        yield unreadable(path, error)
        return
    body = content[_SNAPSHOT_HEADER.size :]
    try:
        version, crc = _SNAPSHOT_HEADER.unpack_from(content)
        (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    except StructError:
        yield finding(path, "it is too short for a snapshot", 0)
        return
    if version != 1:
        yield finding(path, f"it is a snapshot of version {version}, known is 1", 0)
        return
    if crc != crc32c(body):
        yield finding(path, "its CRC does not match", 2)
    entries = body[_SNAPSHOT_COUNT.size :]
    if len(entries) != count * _SNAPSHOT_ENTRY.size:
        yield finding(path, f"it announces {count} producers, which is not its size", _SNAPSHOT_HEADER.size)
        return
    for producer, epoch, sequence, offset, delta, timestamp, _, transaction in _SNAPSHOT_ENTRY.iter_unpack(
        entries
    ):
        yield {
            "kind": "producer",
            "file": str(path),
            "producer_id": producer,
            "producer_epoch": epoch,
            "last_sequence": sequence,
            "last_offset": offset,
            "offset_delta": delta,
            "timestamp": timestamp,
            "transaction_first_offset": transaction,
        }


def property_rows(path: Path) -> Rows:
    try:
        for entry in read(path):
            yield {"kind": "property", "file": str(path), "name": entry.name, "value": entry.value}
    except PropertiesError as error:
        yield finding(path, str(error).removeprefix(f"{path}: "))
