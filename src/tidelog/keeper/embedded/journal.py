"""The embedded keeper's write-ahead log: acknowledged writes survive ``kill -9`` and power cuts.

Files in the keeper's directory, numbers in 20 digits:

* ``log.N``: entries from number N on (``journal_entries``), each a list of commands (``state``);
* ``snapshot.N``: one entry, number N: the state after the commands of entry N. A new log file starts behind
  it, and older files are deleted.

Recovery reads the newest snapshot and every entry behind it. It removes an incomplete entry at the end. Any
other damage is refused with the name of the file: a keeper that lost writes would let two brokers lead in one
epoch.

The calls block; the keeper makes them in a thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.core.types import InvariantViolation
from tidelog.keeper.embedded import journal_entries
from tidelog.keeper.embedded.data_dir import DataDir, KeeperStorageError, sync_directory, write_durably
from tidelog.keeper.embedded.journal_entries import Damaged, Entry
from tidelog.keeper.embedded.protocol import KeeperProtocolError

SNAPSHOT_AFTER_BYTES = 4 * 1024 * 1024


class Journal:
    def __init__(
        self, data_dir: Path, *, fsync: bool = True, snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES
    ) -> None:
        """Lock the directory. Raises ``KeeperStorageError`` if it cannot be used."""
        self._dir = DataDir(data_dir)
        self._fsync = fsync
        self._snapshot_after_bytes = snapshot_after_bytes
        self._file = -1
        self._last = 0
        """The number of the last entry."""
        self._bytes = 0
        """Size of the log since the last snapshot."""

    @property
    def wants_snapshot(self) -> bool:
        return self._bytes > self._snapshot_after_bytes

    # ------------------------------------------------------------ writing

    def append(self, commands: list[list[Any]]) -> None:
        """Durable when it returns. After an ``OSError`` nothing may be appended any more."""
        data = journal_entries.pack(self._last + 1, _to_json(commands))
        unwritten = memoryview(data)
        while unwritten:
            unwritten = unwritten[os.write(self._file, unwritten) :]
        if self._fsync:
            os.fdatasync(self._file)
        self._last += 1
        self._bytes += len(data)

    def rotate(self, snapshot: Any) -> None:
        """Write a snapshot of the state after the last entry, and start a new log file behind it."""
        path = self._dir.path / _name("snapshot", self._last)
        write_durably(path, journal_entries.pack(self._last, _to_json(snapshot)), fsync=self._fsync)
        self._begin_file(self._last + 1)
        self._remove_older_than(self._last)

    def _begin_file(self, first: int) -> None:
        fresh = os.open(
            self._dir.path / _name("log", first), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o644
        )
        if self._fsync:
            sync_directory(self._dir.path)
        self._close_file()
        self._file = fresh
        self._bytes = 0

    def _remove_older_than(self, snapshot: int) -> None:
        for number in self._numbers("snapshot"):
            if number < snapshot:
                (self._dir.path / _name("snapshot", number)).unlink()
        for number in self._numbers("log"):
            if number <= snapshot:
                (self._dir.path / _name("log", number)).unlink()

    def close(self) -> None:
        self._close_file()
        self._dir.close()

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # ------------------------------------------------------------ recovery

    def recover(self, restore: Callable[[Any], None], replay: Callable[[list[Any]], None]) -> None:
        """Load the state from disk: a snapshot, if there is one, and the commands since."""
        for leftover in self._dir.path.glob("*.tmp"):
            leftover.unlink()
        snapshots = self._numbers("snapshot")
        if snapshots:
            self._last = snapshots[-1]
            path = self._dir.path / _name("snapshot", self._last)
            entry = self._read_snapshot(path)
            _understand(path, entry, restore)
        logs = self._logs_since(self._last)
        for first in logs:
            self._replay_file(first, replay, is_last=first == logs[-1])
        if not logs:
            self._begin_file(self._last + 1)

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name for path in self._dir.path.glob(f"{kind}.*"))
        return sorted(
            int(number) for _, _, number in (name.partition(".") for name in names) if number.isdigit()
        )

    def _read_snapshot(self, path: Path) -> Entry:
        data = path.read_bytes()
        try:
            entries, end = journal_entries.read(data, self._last)
        except Damaged as error:
            raise KeeperStorageError(f"{path} is damaged: {error}") from None
        if len(entries) != 1 or end != len(data):
            raise KeeperStorageError(f"{path} is damaged: it does not hold what was written")
        return entries[0]

    def _logs_since(self, snapshot: int) -> list[int]:
        """The files to replay: from the one that holds the entry after the snapshot."""
        logs = self._numbers("log")
        obsolete = [first for first in logs if first <= snapshot + 1][:-1]
        wanted = logs[len(obsolete) :]
        if wanted and wanted[0] > snapshot + 1:
            missing = f"entries {snapshot + 1} to {wanted[0] - 1}"
            raise KeeperStorageError(f"{self._dir.path} lacks {missing}: a file of its log is missing")
        return wanted

    def _replay_file(self, first: int, replay: Callable[[list[Any]], None], *, is_last: bool) -> None:
        path = self._dir.path / _name("log", first)
        data = path.read_bytes()
        try:
            entries, end = journal_entries.read(data, first)
        except Damaged as error:
            raise KeeperStorageError(f"{path} is damaged: {error}; restore it from a copy") from None
        if end != len(data) and not is_last:
            raise KeeperStorageError(
                f"{path} is damaged: it breaks off at byte {end}, and a later file exists"
            )
        for entry in entries:
            if entry.number > self._last:
                if entry.number != self._last + 1:
                    raise KeeperStorageError(
                        f"{path} begins with entry {entry.number} instead of {self._last + 1}"
                    )
                _understand(path, entry, lambda commands: _replay_all(replay, commands))
                self._last = entry.number
        if is_last:
            self._continue_file(path, end)

    def _continue_file(self, path: Path, end: int) -> None:
        """Continue behind the last good entry; an incomplete entry behind it is removed."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, end)
        if self._fsync:
            os.fsync(self._file)
        self._bytes = end


def _replay_all(replay: Callable[[list[Any]], None], commands: list[list[Any]]) -> None:
    if not isinstance(commands, list):
        raise ValueError("not a list of commands")
    for command in commands:
        replay(command)


def _name(kind: str, number: int) -> str:
    return f"{kind}.{number:020}"


def _to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _understand(path: Path, entry: Entry, use: Callable[[Any], object]) -> None:
    """Turn any error in an entry with a correct checksum into a ``KeeperStorageError``."""
    try:
        use(json.loads(entry.body))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        KeeperProtocolError,
        InvariantViolation,
    ) as error:
        raise KeeperStorageError(f"{path}: entry {entry.number} is invalid: {error}") from None
