"""Putting a cleaned segment in the place of those it was made from, so that a crash leaves one or the other.

The names are Kafka's, and each says how far it got:

* ``.cleaned``: being written. After a crash it is worth nothing.
* ``.swap``: complete and synced; the segments it was made from may go. The rename of the ``.log`` is the one
  step that decides: from then on whoever opens the log finishes the swap.
* no suffix: in its place. That is the last rename, when nothing else is left of the old segments.

A file system with a journal keeps renames in order, so a power cut leaves the state after one of them. What a
swap replaces follows from the file alone: everything from its base offset to the end of its last batch, which
is why the last batch is never cleaned away as a whole.
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
    """``replacement`` has been written, with the suffix ``.cleaned``. Returns what is left to be removed.
    After an OSError everything is as it was, unless that is ``NotUndone``."""
    # The log comes last each time: what it is called decides.
    paths = [replacement.index.path, replacement.time_index.path, replacement.path]
    renames = Renames()
    try:
        for path in paths:
            renames.rename(_with(path, CLEANED_SUFFIX), _with(path, SWAP_SUFFIX))
        for segment in obsolete[1:]:
            segment.mark_deleted(renames)
        # The first has the names of its replacement. Its log goes with the last rename.
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
    """Finish what a crash interrupted; a line about each."""
    swaps = sorted(folder.glob("*" + LOG_SUFFIX + SWAP_SUFFIX))
    for swap in swaps:
        base = int(swap.name.removesuffix(LOG_SUFFIX + SWAP_SUFFIX))
        place = folder / file_name(base, LOG_SUFFIX)
        try:
            end = _end_of(swap, base)
        except CorruptLog:
            # It was synced before it got that name, so this is no crash but bit rot. If what it was made from
            # is still there, that is better.
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
        # An index that is not there any more is in its place already.
        if swap.exists():
            os.rename(swap, path)


def _with(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
