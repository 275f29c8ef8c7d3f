"""Files wherever they are: on this machine, in an object store, in HDFS. One small interface over pyarrow's
file systems.

A place is a path or an address: `trial-1`, `file:///data/trial-1`, `s3a://bucket/trial-1`, `hdfs://…`. It
travels to workers as text and is opened there.

What pyarrow has a client for is read by it, without Java: files, `s3a` (Hadoop's name of S3), `gs`, `abfs`.
What Hadoop alone knows goes through Hadoop (`hadoop`): `hdfs`, `viewfs`, and the schemes of a site's own.

Rules of the file: names are relative to the place and use `/`. A file that is written appears as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs

from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.hadoop import HadoopFiles

_S3: Final = ("s3", "s3a", "s3n")
_OWN: Final = (*_S3, "file", "gs", "abfs", "abfss")
"""What pyarrow reads without Hadoop."""


class Source(Protocol):
    """An open file that is read at any place."""

    def read_at(self, nbytes: int, offset: int) -> bytes: ...

    def size(self) -> int: ...


@dataclass(slots=True, frozen=True)
class Place:
    """A folder, by its path or address."""

    address: str

    @classmethod
    def of(cls, place: str | Path) -> Self:
        """Raises `PipelineError` if it is an address that nothing here can open."""
        text = str(place)
        if not is_address(text):
            return cls(str(Path(text).absolute()))
        found = cls(text.rstrip("/"))
        _opened(found.address)
        return found

    @property
    def local(self) -> Path | None:
        """Where it is on this machine; None: elsewhere."""
        system, root = _opened(self.address)
        return Path(root) if isinstance(system, fs.LocalFileSystem) else None

    def __str__(self) -> str:
        local = self.local
        return self.address if local is None else str(local)

    def below(self, name: str) -> Place:
        return Place(f"{self.address}/{name}")

    def parted(self) -> tuple[Place, str]:
        """The folder that it is in, and its name there."""
        folder, _, name = self.address.rpartition("/")
        return Place(folder or "/"), name

    # ------------------------------------------------------------ reading

    def listed(self, name: str = "") -> dict[str, int]:
        """The files of a folder with their sizes, by name; empty if there is no such folder."""
        return {info.base_name: info.size for info in self._entries(name) if info.is_file}

    def folders(self, name: str = "") -> list[str]:
        """The folders in a folder, by name. What links elsewhere is none."""
        local = self.local
        return [
            info.base_name
            for info in self._entries(name)
            if info.type == fs.FileType.Directory
            and not (local is not None and (local / name / info.base_name).is_symlink())
        ]

    def _entries(self, name: str) -> list[Any]:
        system, root = _opened(self.address)
        found = system.get_file_info(fs.FileSelector(_joined(root, name), allow_not_found=True))
        return sorted(found, key=lambda info: info.path)

    def size(self, name: str) -> int | None:
        """None: there is no such file."""
        system, root = _opened(self.address)
        info = system.get_file_info(_joined(root, name))
        return int(info.size) if info.is_file else None

    def exists(self) -> bool:
        system, root = _opened(self.address)
        return bool(system.get_file_info(root).type != fs.FileType.NotFound)

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A `Source`. Raises `OSError`."""
        system, root = _opened(self.address)
        with system.open_input_file(_joined(root, name)) as file:
            yield file

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            content: bytes = file.read()
        return content

    # ------------------------------------------------------------ writing

    def write(self, name: str, content: bytes) -> None:
        """Raises `OSError`."""
        system, root = _opened(self.address)
        path = _joined(root, name)
        system.create_dir(path.rpartition("/")[0], recursive=True)
        if isinstance(system, HadoopFiles):
            system.write(path, content)
            return
        if not isinstance(system, fs.LocalFileSystem):
            with system.open_output_stream(path) as file:  # is there when it is closed
                file.write(content)
            return
        folder, _, last = path.rpartition("/")
        unfinished = f"{folder}/.{last}.{os.getpid()}.tmp"
        with open(unfinished, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)

    def write_table(self, name: str, table: Any) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self.write(name, sink.getvalue())

    def remove(self, name: str) -> None:
        """A folder and all that is in it, if it is there."""
        system, root = _opened(self.address)
        path = _joined(root, name)
        if system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)


def is_address(text: str) -> bool:
    return "://" in text or text.startswith("file:")


def _joined(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root


@lru_cache(maxsize=64)
def _opened(address: str) -> tuple[Any, str]:
    """The file system, and the path in it."""
    if not is_address(address):
        return fs.LocalFileSystem(), address
    scheme = urlsplit(address).scheme
    if scheme == "file":
        return fs.LocalFileSystem(), os.path.abspath(urlsplit(address).path)
    system: Any
    try:
        if scheme in _OWN:
            system, path = fs.FileSystem.from_uri(f"s3{address[len(scheme) :]}" if scheme in _S3 else address)
        else:
            parts = urlsplit(address)
            system, path = HadoopFiles(f"{scheme}://{parts.netloc}"), parts.path
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PipelineError(f"{address} cannot be opened: {first_line(error)}") from None
    return system, path.rstrip("/")
