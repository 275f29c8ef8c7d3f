"""Several renames as one step: until the last of them, all can be taken back.

A log is changed by renaming its files, and a disk may refuse any of them. Half of a change would be another
log than the one in memory, so what was renamed before gets its old name again. If the disk refuses that too,
``NotUndone`` says so: then only a start that reads the folder knows what is there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

DELETED_SUFFIX = ".deleted"
_numbers = count()


class NotUndone(OSError):
    """The disk refused a change, and then to take back the part of it that was made."""


class Renames:
    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: list[tuple[Path, Path]] = []

    def rename(self, path: Path, to: Path) -> None:
        os.rename(path, to)
        self._made.append((path, to))

    def mark_deleted(self, path: Path) -> None:
        """Give a file a name that no start takes for a part of the log. One that is not there is left out."""
        to = path.with_name(path.name + DELETED_SUFFIX)
        if to.exists():
            # A file that had this name before is about to be removed, under the name that it has now.
            to = path.with_name(f"{path.name}.{next(_numbers)}{DELETED_SUFFIX}")
        with suppress(FileNotFoundError):
            self.rename(path, to)

    @property
    def deleted(self) -> list[Path]:
        """What is left to be removed, once nothing will be taken back."""
        return [to for _, to in self._made if to.suffix == DELETED_SUFFIX]

    def undo(self) -> None:
        try:
            while self._made:
                path, to = self._made[-1]
                os.rename(to, path)
                self._made.pop()
        except OSError as error:
            raise NotUndone(error.errno, error.strerror, error.filename) from error
