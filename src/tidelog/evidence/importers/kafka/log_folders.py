"""The log folders of brokers: whose they are, and which partitions they hold.

A broker's log folder has `meta.properties` and one folder for each partition. A broker with several disks has
several of them, which share its id and hold different partitions. A folder that was copied without its
`meta.properties` is named `ID=DIR`.

Rules of the file: nothing is guessed. A folder that contradicts another, or itself, is refused with one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.core.types import Offset, TopicPartition
from tidelog.errors import reason
from tidelog.evidence.folder import EvidenceError
from tidelog.settings.properties import PropertiesError, read
from tidelog.storage.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, read_offsets
from tidelog.storage.errors import StorageRefused
from tidelog.storage.log_folder import CLEAN_SHUTDOWN, META
from tidelog.storage.names import LEAVING_FOLDER, PARTITION_FOLDER, SEGMENT

METADATA: Final = TopicPartition("__cluster_metadata", 0)

_GIVEN: Final = re.compile(r"(?P<id>\d{1,9})=(?P<path>.+)", re.DOTALL)


class LogFolderError(EvidenceError):
    """A log folder cannot be imported. The message says in one line why, and what to do."""


@dataclass(slots=True)
class LogFolder:
    path: Path
    broker: int
    cluster_id: str | None
    logs: dict[TopicPartition, Path]
    passed_over: int
    """Folders of deleted, moved or stray partitions."""
    checkpoints: dict[str, dict[TopicPartition, Offset]] = field(default_factory=dict)
    """By the name of the file; one that is missing is not there."""
    trouble: dict[str, str] = field(default_factory=dict)
    """Checkpoints that cannot be read, and why."""
    stopped_cleanly: bool = False

    def checkpoint(self, name: str, tp: TopicPartition) -> Offset | None:
        return self.checkpoints.get(name, {}).get(tp)


def find_log_folders(given: Sequence[str]) -> list[LogFolder]:
    """The log folders, by broker. Raises `LogFolderError`."""
    found = [_log_folder(each) for each in given]
    _check_clusters(found)
    _check_partitions(found)
    return sorted(found, key=lambda folder: (folder.broker, str(folder.path)))


def _log_folder(given: str) -> LogFolder:
    named = _GIVEN.fullmatch(given)
    path = Path(named["path"] if named else given).absolute()
    try:
        names = sorted(os.listdir(path))
        meta = _meta(path)
    except FileNotFoundError:
        raise LogFolderError(f"{path}: there is no such folder") from None
    except NotADirectoryError:
        raise LogFolderError(f"{path} is a file: give the log folder of a broker (log.dirs)") from None
    except OSError as error:
        raise LogFolderError(f"{path}: {reason(error)}") from None
    folders = {name: path / name for name in names if (path / name).is_dir()}
    logs = {
        TopicPartition(match["topic"], int(match["partition"])): folder
        for name, folder in folders.items()
        if not LEAVING_FOLDER.fullmatch(name)
        and (match := PARTITION_FOLDER.fullmatch(name))
        # Other folders may have such names, too: `python-3`.
        and (meta or _has_segment(folder))
    }
    _check_that_it_is_one(path, names, logs, meta)
    owner = meta.get("node.id", meta.get("broker.id"))
    found = LogFolder(
        path,
        _broker(path, owner, named["id"] if named else None),
        meta.get("cluster.id"),
        logs,
        sum(bool(LEAVING_FOLDER.fullmatch(name)) for name in folders),
        stopped_cleanly=CLEAN_SHUTDOWN in names,
    )
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANED):
        _read_checkpoint(found, name)
    return found


def _has_segment(folder: Path) -> bool:
    try:
        return any(SEGMENT.fullmatch(name) for name in os.listdir(folder))
    except OSError:
        return False


def _meta(path: Path) -> dict[str, str]:
    if not (path / META).exists():
        return {}
    try:
        return {entry.name: entry.value for entry in read(path / META)}
    except PropertiesError as error:
        raise LogFolderError(f"{error}: give a copy of the log folder that is whole") from None


def _check_that_it_is_one(
    path: Path, names: Iterable[str], logs: dict[TopicPartition, Path], meta: dict[str, str]
) -> None:
    if meta or logs:
        return
    if any(SEGMENT.fullmatch(name) for name in names):
        raise LogFolderError(f"{path} is the folder of one partition: give the log folder that it is in")
    below = next((name for name in names if (path / name / META).exists()), None)
    if below is not None:
        raise LogFolderError(f"{path} is not a log folder, but {path / below} is: give that")
    raise LogFolderError(
        f"{path} is not a log folder of Kafka: it has neither {META} nor folders of partitions (log.dirs)"
    )


def _broker(path: Path, owner: str | None, given: str | None) -> int:
    if owner is not None and not owner.isdecimal():
        raise LogFolderError(f"{path / META}: {owner!r} is no broker id")
    if owner is not None and given is not None and int(owner) != int(given):
        raise LogFolderError(f"{path} is of broker {owner}, not {given}: leave out {given}=")
    number = owner if owner is not None else given
    if number is None:
        raise LogFolderError(f"{path} has no broker id in {META}: name the broker, like 1={path}")
    return int(number)


def _read_checkpoint(folder: LogFolder, name: str) -> None:
    path = folder.path / name
    if not path.exists():
        return
    try:
        # Kafka creates these files empty, and writes to them later.
        folder.checkpoints[name] = read_offsets(path) if path.stat().st_size else {}
    except StorageRefused as error:
        folder.trouble[name] = str(error).partition(";")[0]
    except OSError as error:
        folder.trouble[name] = f"{path}: {reason(error)}"


def _check_clusters(folders: Sequence[LogFolder]) -> None:
    known: dict[str, LogFolder] = {}
    for folder in folders:
        if folder.cluster_id is not None:
            known.setdefault(folder.cluster_id, folder)
    if len(known) > 1:
        (one, here), (other, there) = list(known.items())[:2]
        raise LogFolderError(
            f"two clusters: {here.path} is of {one}, {there.path} of {other}; import each by itself"
        )


def _check_partitions(folders: Sequence[LogFolder]) -> None:
    """Several folders of a broker are its disks: no partition is on two of them."""
    seen: dict[tuple[int, TopicPartition], LogFolder] = {}
    for folder in folders:
        for tp in folder.logs:
            other = seen.setdefault((folder.broker, tp), folder)
            if other is not folder:
                raise LogFolderError(
                    f"broker {folder.broker} is given twice: {other.path} and {folder.path} both hold {tp}"
                )
    paths: dict[Path, LogFolder] = {}
    for folder in folders:
        real = folder.path.resolve()
        if real in paths:
            raise LogFolderError(f"{folder.path} is given twice")
        paths[real] = folder
