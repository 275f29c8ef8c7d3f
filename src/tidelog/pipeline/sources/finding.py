"""Segment files on disk: which there are, and whose they are.

A path may be a segment file, the folder of a partition, a broker's data folder (tidelog's or Apache Kafka's),
or anything that holds such folders not too deep down: an evidence folder, the data of a whole cluster.

The broker is who `meta.properties` says (`node.id` since Kafka has no ZooKeeper, `broker.id` before and in
tidelog); without that file, the number in a folder named `broker-N`. Topic and partition are the name of the
folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.storage.log_folder import META

_SEGMENT: Final = re.compile(r"\d{20}\.log")
_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_BROKER: Final = re.compile(r"broker-(?P<id>\d{1,9})")
_OWNER: Final = re.compile(r"^\s*(?:node|broker)\.id\s*=\s*(?P<id>\d{1,9})\s*$", re.MULTILINE)
_DEPTH_MAX: Final = 4


def find_segments(path: Path) -> list[SegmentFile]:
    """The segment files at or below `path`, those of a partition in the order of their offsets."""
    path = path.absolute()
    if not path.exists():
        raise PipelineError(f"{path}: no such file or folder")
    if path.is_file():
        return [identified(path)]
    try:
        found = [identified(file) for file in _files(path, _DEPTH_MAX)]
    except OSError as error:
        raise PipelineError(f"cannot look into {error.filename}: {error.strerror}") from None
    if not found:
        raise PipelineError(
            f"{path} holds no segment files: give a broker's data folder, or an evidence folder"
        )
    return found


def identified(path: Path) -> SegmentFile:
    """A segment file with what its place says about it; what that does not say is None."""
    path = path.absolute()
    named = _PARTITION.fullmatch(path.parent.name)
    broker = _broker(path.parent.parent)
    if not named:
        return SegmentFile(path, broker)
    return SegmentFile(path, broker, named["topic"], int(named["partition"]))


def _files(folder: Path, depth: int) -> Iterator[Path]:
    entries = sorted(folder.iterdir())
    yield from (entry for entry in entries if _SEGMENT.fullmatch(entry.name) and entry.is_file())
    if depth:
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                yield from _files(entry, depth - 1)


@lru_cache(maxsize=1024)
def _broker(data_folder: Path) -> int | None:
    with suppress(OSError, UnicodeDecodeError):
        if owner := _OWNER.search((data_folder / META).read_text("utf-8")):
            return int(owner["id"])
    named = _BROKER.fullmatch(data_folder.name)
    return int(named["id"]) if named else None
