"""Paths of the command line, absolute from where they enter.

Commands that start processes hand paths on to brokers, generators, a JVM and its workers, and print commands
to be typed later, perhaps elsewhere. All of them must mean the same file, so a path is never relative behind
the option that took it: ``Annotated[Path, typer.Option(callback=absolute)]``.

Commands that just read or write files in this process (``dump``, ``--save``, ``--export``) keep them as
typed, because that is how they print them.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.cli.errors import Refusal


def absolute(given: Path | None) -> Path | None:
    """Symbolic links are left as they are: people recognise the names that they chose."""
    return given.absolute() if given is not None else None


def make_folder(path: Path) -> None:
    """A folder to write into, there already or new. Raises `Refusal`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise Refusal(f"{path}: this is a file, not a folder") from None
    except OSError as error:
        raise Refusal(f"{path}: {(error.strerror or str(error)).lower()}") from None
