"""Several renames as one step that can be undone.

A log is changed by renaming its files, and the disk may refuse any rename. Half of a change would leave files
that differ from the log in memory, so the earlier renames are undone. If the disk refuses that too,
``NotUndone`` is raised: then the log cannot be used until the broker is restarted and reads the folder again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

DELETED_SUFFIX = ".deleted"
_numbers = count()


class NotUndone(OSError):
    """The disk refused a change, and then refused to undo the part that was made."""


class Renames:
    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: list[tuple[Path, Path]] = []

    def rename(self, path: Path, to: Path) -> None:
        os.rename(path, to)
        self._made.append((path, to))

    def mark_deleted(self, path: Path) -> None:
        """Rename a file so that no start loads it as part of the log. A missing file is ignored."""
        to = path.with_name(path.name + DELETED_SUFFIX)
        if to.exists():
            # A file with this name is already scheduled for removal under it.
            to = path.with_name(f"{path.name}.{next(_numbers)}{DELETED_SUFFIX}")
        with suppress(FileNotFoundError):
            self.rename(path, to)

    @property
    def deleted(self) -> list[Path]:
        """The renamed files, to be removed when the change is complete."""
        return [to for _, to in self._made if to.suffix == DELETED_SUFFIX]

    def undo(self) -> None:
        try:
            while self._made:
                path, to = self._made[-1]
                os.rename(to, path)
                self._made.pop()
        except OSError as error:
            raise NotUndone(error.errno, error.strerror, error.filename) from error
