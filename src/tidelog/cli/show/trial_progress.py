"""Progress of a trial and its audit on stderr: a bar on a terminal, a line per phase elsewhere."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tidelog.cli.show.output import console

_WORDS = {
    "start": "starting",
    "load": "load and faults",
    "heal": "healing",
    "settle": "waiting for outstanding sends",
    "drain": "final read",
    "stop": "stopping",
    "collect": "collecting",
    "spark": "starting Spark",
    "judge": "checking every record",
    "draw": "drawing the report",
    "compare": "comparing the table with the topic",
}


class QuietWatcher:
    """Prints nothing; handles interrupts."""

    def phase(self, name: str, seconds: float | None) -> None: ...
    def numbers(self, facts: dict[str, int]) -> None: ...
    def said(self, text: str) -> None: ...
    def waits(self, text: str) -> None: ...

    def judged(self, part: float, rows: int) -> None:
        """Which part of an audit is done, and how many sends and reads were looked at."""

    @contextmanager
    def interrupts(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the trial early. A second one skips the waiting; a third one ends the
        process."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        count = 0

        def handle(number: int, frame: FrameType | None) -> None:
            nonlocal count
            count += 1
            if count > 2:
                raise KeyboardInterrupt
            interrupt()
            self.said(
                "ending early: healing and collecting; interrupt again to skip"
                if count == 1
                else "not waiting"
            )

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in before:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Lines(QuietWatcher):
    """For logs: one line for each phase, none for numbers."""

    def phase(self, name: str, seconds: float | None) -> None:
        print(_WORDS[name] + (f", {seconds:g} s" if seconds else ""), file=sys.stderr, flush=True)

    def said(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)


class Bar(QuietWatcher):
    """For terminals: a bar that is rewritten in place, and the faults as they happen."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._screen = console(stderr=True)
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            TextColumn("{task.fields[numbers]}", markup=False),
            console=self._screen,
            transient=True,
        )
        self._task: Any = None
        self._lasts: float | None = None

    def phase(self, name: str, seconds: float | None) -> None:
        if self._task is not None:
            self.progress.remove_task(self._task)
        self._lasts = seconds
        self._task = self.progress.add_task(_WORDS[name], total=seconds, numbers="")

    def numbers(self, facts: dict[str, int]) -> None:
        if self._task is None:
            return
        elapsed = self.progress.tasks[-1].elapsed or 0.0
        sent, ok, read = (facts.get(name, 0) for name in ("sent", "ok", "reads"))
        text = f"{ok:,} of {sent:,} ok · {read:,} read"
        if facts.get("unknown"):
            text += f" · {facts['unknown']:,} unknown"
        completed = min(elapsed, self._lasts) if self._lasts else None
        self.progress.update(self._task, numbers=text, completed=completed)

    def judged(self, part: float, rows: int) -> None:
        if self._task is None:
            return
        elapsed = self.progress.tasks[-1].elapsed or 0.0
        rate = f"{rows / elapsed:,.0f} records/s" if rows and elapsed else ""
        left = f"{elapsed * (1 - part) / part:,.0f} s left" if part and elapsed > 2 else ""
        text = " · ".join(filter(None, (rate, left)))
        self.progress.update(self._task, numbers=text, total=1.0, completed=part)

    def waits(self, text: str) -> None:
        if self._task is not None:
            self.progress.update(self._task, numbers=text)

    def said(self, text: str) -> None:
        self.progress.print(f"  {text}", highlight=False, markup=False)


@contextmanager
def watched(*, quiet: bool) -> Iterator[QuietWatcher]:
    """The progress output of a trial."""
    if quiet:
        yield QuietWatcher()
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        bar = Bar()
        with bar.progress:
            yield bar
