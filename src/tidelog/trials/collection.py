"""Evidence that is collected after a cluster has stopped, or after a trial was killed.

The replica logs are listed with their end offsets. Segment files stay where the brokers wrote them; only the
headers of the last file's batches are read, to find its end.

`recover` completes the evidence of a killed trial. Its brokers and generators end by themselves a moment
later, and until then they write their journals, so it waits for them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.cluster.directory import kill_leftovers
from tidelog.core.types import TopicPartition
from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.evidence.folder import RECOVERED, RUNNING, EvidenceError, EvidenceFolder
from tidelog.evidence.journals.slots import Slots, StillWritten, slot_files
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.parquet.recovery import Sealed, seal_journals
from tidelog.evidence.tables import REPLICAS
from tidelog.storage.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, read_epochs, read_offsets
from tidelog.storage.errors import StorageRefused
from tidelog.storage.names import SEGMENT
from tidelog.wire.batch import HEADER, HEADER_SIZE, LENGTH_END

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


def collect_replicas(folder: EvidenceFolder, topic: str, leaders: dict[int, dict[str, Any]]) -> int:
    """List the replicas of a topic in all brokers' data. `leaders`: what was known of each partition at the
    end. How many replicas there are; what cannot be read is named as missing."""
    writer = PartWriter(folder.path / REPLICAS.name, REPLICAS, seconds_max=float("inf"))
    replicas = 0
    for broker in folder.manifest.brokers:
        data = folder.path / broker["data_dir"]
        try:
            for rows in _replicas(data, topic, folder.path):
                replicas += 1
                for row in rows:
                    writer.write(row | {"broker": broker["id"]} | leaders.get(row["partition"], {}))
        except StorageRefused as error:
            folder.manifest.lacks(f"replicas of broker {broker['id']}", str(error))
        except OSError as error:
            folder.manifest.lacks(f"replicas of broker {broker['id']}", f"{data}: {reason(error)}")
    writer.close()
    return replicas


def _replicas(data: Path, topic: str, root: Path) -> Iterator[list[Row]]:
    """The rows of each partition of the topic in one broker's data."""
    watermarks = read_offsets(data / HIGH_WATERMARKS)
    starts = read_offsets(data / LOG_STARTS)
    for path in sorted(data.glob(f"{topic}-*")):
        name, _, number = path.name.rpartition("-")
        if name != topic or not number.isdigit():
            continue
        files = sorted(file for file in path.iterdir() if SEGMENT.fullmatch(file.name))
        if not files:
            continue
        tp = TopicPartition(topic, int(number))
        epochs = read_epochs(path / LEADER_EPOCHS)
        shared: Row = {
            "topic": topic,
            "partition": tp.partition,
            "log_start_offset": starts.get(tp, int(files[0].stem)),
            "log_end_offset": end_of(files[-1]),
            "high_watermark": watermarks.get(tp, 0),
            "epochs": [entry.epoch for entry in epochs],
            "epoch_starts": [entry.start_offset for entry in epochs],
        }
        yield [
            shared
            | {
                "file": str(file.relative_to(root)),
                "base_offset": int(file.stem),
                "bytes": file.stat().st_size,
            }
            for file in files
        ]


def end_of(segment: Path) -> int:
    """The offset after the last whole batch of a segment file."""
    end = int(segment.stem)
    size = segment.stat().st_size
    fd = os.open(segment, os.O_RDONLY)
    try:
        position = 0
        while position + HEADER_SIZE <= size:
            base, length, _, _, _, _, last_delta, *_ = HEADER.unpack(os.pread(fd, HEADER_SIZE, position))
            position += LENGTH_END + length
            if length < HEADER_SIZE - LENGTH_END or position > size:
                break
            end = base + last_delta + 1
        return end
    finally:
        os.close(fd)


# ---------------------------------------------------------------- killed trials


@dataclass(slots=True)
class RecoveredTrial:
    processes_ended: int
    sealed: Sealed


def recover(path: Path) -> tuple[EvidenceFolder, RecoveredTrial]:
    """Bring the evidence of a killed trial into order. Raises `EvidenceError` if there is none, or if the
    trial still runs. Repeating it does no harm. The caller releases the folder."""
    folder = EvidenceFolder.claim(path)
    try:
        if not folder.manifest.keeps_ledger:
            raise EvidenceError(f"{path} is no trial: repeat tidelog evidence import-kafka to finish it")
        ended = kill_leftovers(folder.cluster)
        _wait_for_writers(folder)
        sealed = seal_journals(folder)
        manifest = folder.manifest
        if manifest.state == RUNNING:
            manifest.state = RECOVERED
            manifest.lacks("the rest of the trial", "its process was killed")
            for topic in manifest.topics:
                collect_replicas(folder, topic["name"], {})
        folder.write_manifest()
    except BaseException:
        folder.release()
        raise
    return folder, RecoveredTrial(ended, sealed)


def _wait_for_writers(folder: EvidenceFolder) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _is_written(folder.journal):
        if time.monotonic() > deadline:
            raise EvidenceError(f"processes of the trial in {folder.path} still run: wait for their end")
        time.sleep(_POLL_SECONDS)


def _is_written(journal: Path) -> bool:
    for path in slot_files(journal):
        try:
            Slots.open(path).release()
        except StillWritten:
            return True
        except Exception:
            continue  # damaged, or gone: not written at any rate
    return False


def stop_leftovers(folder: Path) -> list[Path]:
    """Folders of killed trials below `folder` that had left processes, which are ended now."""
    found = []
    for manifest in folder.glob("*/trial.json"):
        try:
            trial = EvidenceFolder.claim(manifest.parent)
        except EvidenceError:
            continue  # it runs, or is none
        if kill_leftovers(trial.cluster):
            found.append(manifest.parent)
        trial.release()
    return found
