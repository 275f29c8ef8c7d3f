"""An interactive search: with progress, a time limit, and Ctrl-C.

Progress goes to stderr, and only to a terminal. The finding does not depend on it. A limit in seconds is the
exception: it ends the search after a number of schedules that depends on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from tidelog.lab.search.schedule import Finding
from tidelog.lab.search.search import SearchOptions, SearchResult, search
from tidelog.lab.search.shrink import shrink
from tidelog.scenario.violations import Grade


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} schedules/s", "dim")


class _TimeUp(Exception):
    """The time limit is reached. Raised between two schedules."""


@dataclass(slots=True)
class Hunt:
    """The course and result of a search."""

    options: SearchOptions
    result: SearchResult = field(default_factory=SearchResult)
    interrupted: bool = False
    time_up: bool = False
    finding: Finding | None = None
    """The worst finding, shrunk unless the user interrupted."""
    shrunk: bool = False


def hunt(
    options: SearchOptions,
    screen: Console,
    *,
    seconds: float | None,
    keep_going: bool,
    on_start: Callable[[], None],
    on_first: Callable[[str, int], None],
) -> Hunt:
    """Search, then shrink the finding.

    ``on_start`` is called once Ctrl-C is handled. ``on_first`` is called for each invariant when it first
    breaks, with the number of the schedule.
    """
    hunted = Hunt(options)
    try:
        on_start()
        _search(hunted, screen, seconds, keep_going, on_first)
        hunted.finding = hunted.result.finding
        if hunted.finding is not None:
            hunted.finding = _shrink(hunted.finding, screen)
            hunted.shrunk = True
    except KeyboardInterrupt:
        hunted.interrupted = True
        hunted.finding = hunted.result.finding
    return hunted


def _search(
    hunted: Hunt,
    screen: Console,
    seconds: float | None,
    keep_going: bool,
    on_first: Callable[[str, int], None],
) -> None:
    result = hunted.result
    deadline = None if seconds is None else time.monotonic() + seconds
    announced: list[str] = []

    def announce(bar: _Bar, schedules: int) -> None:
        for name in list(result.broken)[len(announced) :]:
            announced.append(name)
            bar.aside(on_first, name, schedules)

    with _progress(screen, "searching", hunted.options.schedules) as bar:

        def progress(done: int) -> None:
            bar.show(done)
            announce(bar, done)
            if deadline is not None and time.monotonic() >= deadline:
                raise _TimeUp

        stop_at = None if keep_going else Grade.DATA
        try:
            search(hunted.options, stop_at=stop_at, progress=progress, result=result)
        except _TimeUp:
            hunted.time_up = True


def _shrink(finding: Finding, screen: Console) -> Finding:
    steps = len(finding.scenario.steps)
    with _progress(screen, "shrinking", steps, rate=False) as bar:
        return shrink(finding, progress=lambda left: bar.show(max(steps - left, 0)))


class _Bar:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, progress: Progress | None, what: str, total: int) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(what, total=total)

    def show(self, done: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)

    def aside(self, say: Callable[[str, int], None], what: str, number: int) -> None:
        """Remove the bar while ``say`` prints."""
        if self._progress is not None:
            self._progress.stop()
        say(what, number)
        if self._progress is not None:
            self._progress.start()


@contextmanager
def _progress(screen: Console, what: str, total: int, *, rate: bool = True) -> Iterator[_Bar]:
    if not screen.is_terminal:
        yield _Bar(None, what, total)
        return
    columns = [TextColumn(f"{what:<10}"), BarColumn(), MofNCompleteColumn(), *([_Rate()] if rate else [])]
    # rich must not redirect stdout to the terminal: stdout may be a file.
    with Progress(*columns, console=screen, transient=True, redirect_stdout=False) as progress:
        yield _Bar(progress, what, total)
