"""A search that a person is waiting for: it shows its progress, keeps to a time, and can be interrupted.

Progress goes to stderr and only to a terminal. What is found does not depend on any of it, except that a
limit in seconds ends the search at another schedule on another machine.
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
    """The seconds are over. Raised between two schedules."""


@dataclass(slots=True)
class Hunt:
    """How a search went."""

    options: SearchOptions
    result: SearchResult = field(default_factory=SearchResult)
    interrupted: bool = False
    time_up: bool = False
    finding: Finding | None = None
    """The worst that was found; made small unless somebody had no patience."""
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
    """Search, then shrink what was found.

    ``on_start`` is called when an interruption has become harmless, ``on_first`` for each invariant the first
    time it breaks, with the number of the schedule.
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
    """A progress bar, or nothing where there is no terminal."""

    def __init__(self, progress: Progress | None, what: str, total: int) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(what, total=total)

    def show(self, done: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)

    def aside(self, say: Callable[[str, int], None], what: str, number: int) -> None:
        """Step out of the way while something is printed."""
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
    # What goes to stdout must stay there, also when stdout is a file and only stderr a terminal.
    with Progress(*columns, console=screen, transient=True, redirect_stdout=False) as progress:
        yield _Bar(progress, what, total)
