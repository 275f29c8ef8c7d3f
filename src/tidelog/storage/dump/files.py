"""Choose the reader of a file by its name."""

from __future__ import annotations

from pathlib import Path

from tidelog.errors import Refusal
from tidelog.storage.checkpoints import LEADER_EPOCHS
from tidelog.storage.dump.indexes import (
    TRANSACTION_INDEX_SUFFIX,
    index_rows,
    time_index_rows,
    transaction_index_rows,
)
from tidelog.storage.dump.rows import Rows
from tidelog.storage.dump.segments import Extent, segment_rows
from tidelog.storage.dump.small_files import (
    OFFSET_CHECKPOINTS,
    PROPERTIES,
    epoch_rows,
    offset_rows,
    property_rows,
    snapshot_rows,
)
from tidelog.storage.log.producer_snapshot import SNAPSHOT_SUFFIX
from tidelog.storage.log.renames import DELETED_SUFFIX
from tidelog.storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX


class UnknownFile(Refusal):
    """The file is not part of a log."""


def file_rows(path: Path, *, records: bool = False) -> Rows:
    """All rows of one file. Raises `UnknownFile` at once if no reader knows the file's name."""
    # A file that was renamed for removal keeps its format.
    name = path.name.removesuffix(DELETED_SUFFIX)
    if name.endswith(LOG_SUFFIX):
        return segment_rows(path, Extent(), records=records)
    if name.endswith(INDEX_SUFFIX):
        return index_rows(path)
    if name.endswith(TIME_INDEX_SUFFIX):
        return time_index_rows(path)
    if name.endswith(TRANSACTION_INDEX_SUFFIX):
        return transaction_index_rows(path)
    if name.endswith(SNAPSHOT_SUFFIX):
        return snapshot_rows(path)
    if name == LEADER_EPOCHS:
        return epoch_rows(path)
    if name in OFFSET_CHECKPOINTS:
        return offset_rows(path)
    if name in PROPERTIES:
        return property_rows(path)
    raise UnknownFile(
        f"{path}: not a file of a log (expected .log, .index, .timeindex, .snapshot, a checkpoint)"
    )
