"""The embedded keeper's log on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


class WriteAheadLog:
    def __init__(self, data_dir: Path, *, fsync: bool) -> None:
        raise NotImplementedError

    wants_snapshot = False

    def open(self) -> Any:
        return None

    def recovered(self) -> Iterator[list[Any]]:
        return iter(())

    def append(self, commands: list[list[Any]]) -> None: ...
    def rotate(self, snapshot: Any) -> None: ...
    def close(self) -> None: ...
