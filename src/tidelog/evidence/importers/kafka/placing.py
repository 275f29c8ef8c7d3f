"""How segment files get into the evidence: by reference, by hard link, or as copies.

The last segment of a partition, its indexes and all small files are always copied: a broker that runs still
writes to them, and what an audit reads twice must not change. Closed segments never change, so by default the
evidence holds symbolic links to them. The source needs no permission but to read; a hard link also adds a
name to the file's inode, and keeps the bytes when the broker deletes the file.
"""

from __future__ import annotations

import errno
import os
import shutil
from enum import StrEnum
from pathlib import Path

from tidelog.errors import reason
from tidelog.evidence.importers.kafka.log_folders import LogFolderError


class Placing(StrEnum):
    REFERENCE = "reference"
    """A symbolic link: the log folder must stay where it is until the audit."""
    LINK = "link"
    """A hard link: on the same file system only."""
    COPY = "copy"


def place(source: Path, target: Path, how: Placing) -> None:
    """Raises `LogFolderError` if a hard link is not possible, `OSError` if the source cannot be read."""
    target.unlink(missing_ok=True)
    match how:
        case Placing.REFERENCE:
            # A link to a file that cannot be read would fail much later, without a name.
            os.close(os.open(source, os.O_RDONLY))
            target.symlink_to(source)
        case Placing.COPY:
            copy(source, target)
        case Placing.LINK:
            try:
                os.link(source, target)
            except OSError as error:
                if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EROFS):
                    raise LogFolderError(
                        f"{source} cannot be hard-linked ({reason(error)}): use --segments reference or copy"
                    ) from None
                raise


def copy(source: Path, target: Path) -> None:
    """In blocks; holes of the source stay holes of the copy where the system can do that."""
    unfinished = target.with_name(f".{target.name}.tmp")
    with source.open("rb") as reader, unfinished.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
    os.replace(unfinished, target)
