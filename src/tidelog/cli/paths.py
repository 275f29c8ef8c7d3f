"""Paths given on the command line.

Commands that start processes pass paths to brokers, load generators, a JVM and its workers. They also print
commands that the user may run in another directory. So options make their paths absolute:
``Annotated[Path, typer.Option(callback=absolute)]``.

Commands that only read or write files in this process (``dump``, ``--save``, ``--export``) keep paths as
typed, because they print them.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.errors import Refusal, reason


def absolute(given: Path | None) -> Path | None:
    """The absolute path. Symbolic links stay: users recognise the names that they typed."""
    return given.absolute() if given is not None else None


def check_file(path: Path | None) -> None:
    """Whether a file can be written there, before the work whose result it holds. Raises `Refusal`."""
    if path is None:
        return
    if path.is_dir():
        raise Refusal(f"{path}: this is a directory, not a file")
    if not path.parent.is_dir():
        raise Refusal(f"{path}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refusal(f"{path}: permission denied")


def make_folder(path: Path) -> None:
    """Create a folder unless it exists. Raises `Refusal`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise Refusal(f"{path}: this is a file, not a folder") from None
    except OSError as error:
        raise Refusal(f"{path}: {reason(error)}") from None
