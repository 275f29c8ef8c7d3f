"""Output: text through rich, and exact text and JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import OutputClosed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def console(*, stderr: bool = False) -> Console:
    """Colours on a terminal, none in a pipe; 80 columns if the width is unknown."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise OutputClosed

    # Values of records are arbitrary text: never read them as markup or emoji, never highlight them.
    return Quiet(stderr=stderr, markup=False, emoji=False, highlight=False)


def write_lines(screen: Console, lines: Iterable[Text]) -> None:
    """Print lines as they are, without wrapping."""
    for line in lines:
        screen.print(line, no_wrap=True, overflow="ignore", crop=False)


def write_text(text: str) -> None:
    """Print this text as UTF-8 in every locale, so that tidelog can read its own output."""
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
