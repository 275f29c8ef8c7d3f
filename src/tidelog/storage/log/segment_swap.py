"""Replace segments by their compacted version, so that a crash leaves the old or the new ones.

The file names are Kafka's, and show how far a swap got:

* ``.cleaned``: being written. The next start deletes it.
* ``.swap``: complete and synced; the old segments may be removed. The rename of the ``.log`` is the step that
  decides: after it the next start finishes the swap.
* no suffix: part of the log. This is the last rename, after all old segments were removed.

A file system with a journal keeps renames in order, so a power cut leaves the state after one of them. The
file alone determines what a swap replaces: everything from its base offset to the end of its last batch. That
is why compaction never removes the last batch of a segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tidelog.core.types import Offset
from tidelog.storage.durable import sync_folder
from tidelog.storage.errors import CorruptLog
from tidelog.storage.log.batch_file import BatchFile
from tidelog.storage.log.renames import Renames
from tidelog.storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name
from tidelog.storage.resources import OpenFiles

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_EVERYTHING: Offset = 1 << 62


def swap_in(obsolete: list[Segment], replacement: Segment) -> list[Path]:
    """``replacement`` was written with the suffix ``.cleaned``. Returns the files to remove. After an OSError
    nothing has changed, except after ``NotUndone``."""
    # The ``.log`` is renamed last each time, because its name decides.
    paths = [replacement.index.path, replacement.time_index.path, replacement.path]
    renames = Renames()
    try:
        for path in paths:
            renames.rename(_with(path, CLEANED_SUFFIX), _with(path, SWAP_SUFFIX))
        for segment in obsolete[1:]:
            segment.mark_deleted(renames)
        # The first segment has the names of its replacement. The last rename overwrites its ``.log``.
        for path in paths[:-1]:
            renames.mark_deleted(path)
        for path in paths:
            renames.rename(_with(path, SWAP_SUFFIX), path)
    except OSError:
        renames.undo()
        raise
    for segment in obsolete:
        segment.close()
    return renames.deleted


def complete_swaps(folder: Path) -> Iterator[str]:
    """Finish swaps that a crash interrupted. Returns one line about each."""
    swaps = sorted(folder.glob("*" + LOG_SUFFIX + SWAP_SUFFIX))
    for swap in swaps:
        base = int(swap.name.removesuffix(LOG_SUFFIX + SWAP_SUFFIX))
        place = folder / file_name(base, LOG_SUFFIX)
        try:
            end = _end_of(swap, base)
        except CorruptLog:
            # It was synced before it got that name, so this is bit rot and not a crash. If the old segments
            # still exist, keep them.
            if place.exists():
                continue
            end = base
        _complete(folder, base, end)
        yield f"finished the cleaning of {place.name}"
    if swaps:
        sync_folder(folder)


def _end_of(path: Path, base: Offset) -> Offset:
    file = BatchFile(path, base, OpenFiles(1))
    file.size = os.stat(path).st_size
    file.sparse = True
    try:
        return file.walk(0, base, _EVERYTHING)[1]
    finally:
        file.close_file()


def _complete(folder: Path, base: Offset, end: Offset) -> None:
    for path in folder.glob("*" + LOG_SUFFIX):
        if path.stem.isdecimal() and base < int(path.stem) < end:
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                path.with_suffix(suffix).unlink(missing_ok=True)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        path = folder / file_name(base, suffix)
        swap = _with(path, SWAP_SUFFIX)
        # A missing index has been renamed already.
        if swap.exists():
            os.rename(swap, path)


def _with(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
