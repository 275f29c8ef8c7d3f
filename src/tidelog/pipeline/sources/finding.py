"""Segment files: which there are, and whose they are.

A path or an address may be that of a segment file, of the folder of a partition, of a broker's data folder
(tidelog's or Apache Kafka's), or of anything that holds such folders not too deep down: an evidence folder,
the data of a whole cluster.

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

from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.storage.log_folder import META
from tidelog.storage.names import PARTITION_FOLDER, SEGMENT

_BROKER: Final = re.compile(r"broker-(?P<id>\d{1,9})")
_OWNER: Final = re.compile(r"^\s*(?:node|broker)\.id\s*=\s*(?P<id>\d{1,9})\s*$", re.MULTILINE)
_DEPTH_MAX: Final = 4


def find_segments(path: str | Path) -> list[SegmentFile]:
    """The segment files at or below `path`, those of a partition in the order of their offsets."""
    place = Place.of(path)
    if not place.exists():
        raise PipelineError(f"{place}: no such file or folder")
    folder, name = place.parted()
    if folder.size(name) is not None:
        return [identified(folder, name)]
    try:
        found = list(_files(place, _DEPTH_MAX))
    except OSError as error:
        raise PipelineError(f"cannot look into {error.filename or place}: {reason(error)}") from None
    if not found:
        raise PipelineError(
            f"{place} holds no segment files: give a broker's data folder, or an evidence folder"
        )
    return found


def identified(folder: Place, name: str) -> SegmentFile:
    """A segment file with what its place says about it; what that does not say is None."""
    above, last = folder.parted()
    named = PARTITION_FOLDER.fullmatch(last)
    broker = _broker(above)
    if not named:
        return SegmentFile(folder, name, broker)
    return SegmentFile(folder, name, broker, named["topic"], int(named["partition"]))


def _files(folder: Place, depth: int) -> Iterator[SegmentFile]:
    for name in folder.listed():
        if SEGMENT.fullmatch(name):
            yield identified(folder, name)
    if depth:
        for name in folder.folders():
            yield from _files(folder.below(name), depth - 1)


@lru_cache(maxsize=1024)
def _broker(data_folder: Place) -> int | None:
    with suppress(OSError, UnicodeDecodeError):
        if owner := _OWNER.search(data_folder.read(META).decode()):
            return int(owner["id"])
    named = _BROKER.fullmatch(data_folder.parted()[1])
    return int(named["id"]) if named else None
