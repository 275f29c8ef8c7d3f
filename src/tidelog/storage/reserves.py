"""Disk space that is allocated ahead of the files that logs append to, so that an append need not find it.

The size of a file does not change (``FALLOC_FL_KEEP_SIZE``): readers, recovery and other tools see nothing
of it. A reserve is at most as large as its file, and given back when the file is truncated, sealed or closed.
After a kill the next process gives it back when it opens the file.

Other files need the space too. So only ``FILES_MAX`` files have a reserve, those that grew last, and nothing
is reserved on a disk with little free space: then all reserves are given back, as when the disk is full.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

BEGINS_AT_BYTES = 1 << 20
"""A smaller file has no reserve: most logs of a cluster with thousands of them are small."""
BYTES_MAX = 16 << 20
FILES_MAX = 64
FREE_BYTES_MIN = 1 << 30
_KEEP_SIZE = 1
NEVER = 1 << 62


def _allocator() -> Callable[[int, int, int, int], int] | None:
    """``fallocate`` of the C library: Python has only ``posix_fallocate``, which makes the file longer."""
    try:
        from ctypes import CDLL, c_int, c_int64

        allocate: Any = CDLL(None).fallocate64
    except (ImportError, AttributeError, OSError, TypeError):
        return None
    allocate.argtypes, allocate.restype = (c_int, c_int, c_int64, c_int64), c_int
    result: Callable[[int, int, int, int], int] = allocate
    return result


_allocate = _allocator()


class GrowingFile(Protocol):
    def give_back(self) -> None:
        """Free what is allocated beyond the end of the file."""


class Reserves:
    """The reserves of all logs of a broker. Used by the thread that appends."""

    __slots__ = ("_files", "_files_max", "_free_bytes_min")

    def __init__(self, *, files_max: int = FILES_MAX, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        self._files_max = files_max
        self._free_bytes_min = free_bytes_min
        self._files: OrderedDict[GrowingFile, None] = OrderedDict()
        """Those that have a reserve; the last to grow is the last."""

    def extend(self, file: GrowingFile, descriptor: int, size: int, end: int) -> int:
        """The file has ``size`` bytes and will grow to ``end``. Returns the size at which to ask again."""
        if _allocate is None:
            return NEVER
        ahead = min(end, BYTES_MAX)
        if not self._has_room(descriptor, ahead):
            self.give_back()
        elif _allocate(descriptor, _KEEP_SIZE, size, end + ahead - size) == 0:
            files = self._files
            files[file] = None
            files.move_to_end(file)
            if len(files) > self._files_max:
                files.popitem(last=False)[0].give_back()
        return end + ahead

    def _has_room(self, descriptor: int, ahead: int) -> bool:
        try:
            disk = os.fstatvfs(descriptor)
        except OSError:
            return False
        return disk.f_bavail * disk.f_frsize >= self._free_bytes_min + ahead

    def __contains__(self, file: GrowingFile) -> bool:
        return file in self._files

    def forget(self, file: GrowingFile) -> bool:
        """The file has no reserve any more. Returns whether it had one."""
        had = file in self._files
        if had:
            del self._files[file]
        return had

    def give_back(self) -> bool:
        """Free all reserves. Returns whether there were any."""
        files, self._files = self._files, OrderedDict()
        for file in files:
            file.give_back()
        return bool(files)
