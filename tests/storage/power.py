"""A disk that loses power: of everything written, only what was synced is sure to be there afterwards.

Wraps the two system calls that make things durable. A sync of a file keeps its bytes of that moment, a sync
of a folder its names. A power cut then builds a folder from that, and for each file and folder that has
changed since, the test's dice say how much of the change had made it to the disk all the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

Dice = Callable[[int], int]
"""A number below the given one."""


class Disk:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, grain: int) -> None:
        """Writes are torn anywhere, and every other time at a multiple of ``grain`` bytes."""
        self.root = root
        self._grain = grain
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: list[int] = []
        monkeypatch.setattr(os, "fsync", self._synced)
        monkeypatch.setattr(os, "fdatasync", self._synced)

    def _synced(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = self._listing(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        else:
            if found.st_ino not in self._contents:
                # Held open, so that its number is not given to another file.
                self._held.append(os.dup(descriptor))
            self._contents[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    @staticmethod
    def _listing(folder: Path) -> dict[str, int]:
        return {entry.name: entry.inode() for entry in os.scandir(folder)}

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    # ------------------------------------------------------------ the cut

    def cut_power(self, to: Path, dice: Dice) -> Path:
        """Build in ``to`` what the next start finds."""
        self._restore_folder(self.root, to, dice)
        return to

    def _restore_folder(self, now: Path, to: Path, dice: Dice) -> None:
        to.mkdir()
        current = self._listing(now)
        durable = self._names.get(os.stat(now).st_ino, {})
        names = current if dice(2) else durable
        by_number = {number: name for name, number in current.items()}
        for name, number in names.items():
            # A name that was removed or changed since leads to the same file as ever.
            path = now / by_number[number] if number in by_number else None
            if path is not None and path.is_dir():
                self._restore_folder(path, to / name, dice)
            else:
                (to / name).write_bytes(self._restored_bytes(number, path, dice))

    def _restored_bytes(self, number: int, path: Path | None, dice: Dice) -> bytes:
        durable = self._contents.get(number, b"")
        current = path.read_bytes() if path is not None else durable
        choice = dice(4)
        if current == durable or choice == 0:
            return durable
        if choice == 1:
            return current
        same = next(
            (n for n, (a, b) in enumerate(zip(durable, current, strict=False)) if a != b), len(durable)
        )
        reached = same + dice(max(len(durable), len(current)) - same + 1)
        if dice(2):
            reached -= reached % self._grain
        if choice == 2:
            # Torn: the new bytes up to somewhere; of the rest the old ones, or nothing.
            return current[:reached] + durable[reached:]
        # The size went ahead of the data: the rest of the file is holes.
        return current[:reached] + bytes(len(current[reached:]))
