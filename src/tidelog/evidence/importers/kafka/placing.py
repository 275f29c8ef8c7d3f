"""How segment files get into the evidence: by reference, by hard link, or as copies.

The last segment of a partition, its indexes and all small files are always copied: a broker that runs still
writes to them, and what an audit reads twice must not change. Closed segments never change, so by default the
evidence holds symbolic links to them. The source needs no permission but to read; a hard link also adds a
name to the file's inode, and keeps the bytes when the broker deletes the file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from tidelog.errors import reason
from tidelog.evidence.importers.kafka.log_folders import LogFolderError

_BLOCK: Final = 1 << 20


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
    """Holes of the source stay holes of the copy: Kafka allocates 10 MB for each index that it writes to, and
    has used a few bytes of most."""
    unfinished = target.with_name(f".{target.name}.tmp")
    with source.open("rb") as reader, unfinished.open("wb") as writer:
        size = os.fstat(reader.fileno()).st_size  # it may grow or be cut while it is read
        for start, end in _filled(reader.fileno(), size):
            reader.seek(start)
            writer.seek(start)
            while start < end and (block := reader.read(min(_BLOCK, end - start))):
                writer.write(block)
                start += len(block)
        writer.truncate(min(size, os.fstat(reader.fileno()).st_size))
    os.replace(unfinished, target)


def _filled(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are not holes; all of it where the file system does not know."""
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            position = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # which says: nothing but a hole from here on
                yield position, size
            return
        position = min(position, size)
        yield start, position
