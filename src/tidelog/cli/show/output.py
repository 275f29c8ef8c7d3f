"""The ways out: text for people through rich, exact text and JSON for everything else, and files that a user
named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import OutputClosed
from tidelog.storage.durable import write_synced

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def console(*, stderr: bool = False) -> Console:
    """Colours on a terminal, none in a pipe; 80 columns where the terminal does not say otherwise."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise OutputClosed

    # Values of records are anybody's text: never read them as markup, emoji or something to highlight.
    return Quiet(stderr=stderr, markup=False, emoji=False, highlight=False)


def write_lines(screen: Console, lines: Iterable[Text]) -> None:
    """Print lines that are wrapped already."""
    for line in lines:
        screen.print(line, no_wrap=True, overflow="ignore", crop=False)


def write_file(path: Path, text: str) -> None:
    """A file is there as a whole, the old one or the new; a device or a pipe is simply written to. Raises
    ``OSError``."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
    else:
        write_synced(path, text.encode())


def write_text(text: str) -> None:
    """Print exactly this, as UTF-8 whatever the locale says: what we print can be read back."""
    try:
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(text)
        else:
            sys.stdout.flush()
            buffer.write(text.encode("utf-8"))
            buffer.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def write_json(value: Any) -> None:
    write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def counted(count: int, noun: str) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
