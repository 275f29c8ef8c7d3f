"""Folders for logs: where they are made, what a crash leaves of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidelog.core.types import TopicPartition
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

TP = TopicPartition("topic", 0)

MEMORY = Path("/dev/shm")


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for tests that open and close logs many times: in memory where there is such a place, because
    what they are about is not whether the disk keeps its promise."""
    parent = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent, prefix="tidelog-") as name:
        yield Path(name)


@contextmanager
def storage(path: Path, **options: Any) -> Iterator[FileStorage]:
    opened = FileStorage(path, broker_id=1, **options)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def log(path: Path, **options: Any) -> Iterator[FileLog]:
    with storage(path, **options) as opened:
        yield opened.open(TP)


def after_a_crash(path: Path, to: Path) -> Path:
    """What another process finds when this one is killed now: the files as they are, and no lock."""
    shutil.copytree(path, to)
    return to


def small(**settings: int | str) -> dict[str, str]:
    """Settings under which everything happens often: segments of a few batches, an index entry for most."""
    values: dict[str, int | str] = {"segment.bytes": 400, "index.interval.bytes": 100, **settings}
    return {name: str(value) for name, value in values.items()}


def dotted(**settings: int | str) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in settings.items()}
