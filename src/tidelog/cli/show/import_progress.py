"""Progress of an import on stderr: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.cli.show.output import console


@contextmanager
def watched(*, quiet: bool) -> Iterator[Callable[[int, int, str], object]]:
    """Called with the bytes imported, the bytes in all, and what is imported now."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, words: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking", total=None)
        yield lambda done, total, words: bar.update(
            task, completed=done, total=max(total, 1), description=words
        )
