"""Progress of a sweep on stderr: a bar with rate and time left on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.cli.show.output import console
from tidelog.pipeline.sweep.campaign import CampaignListener
from tidelog.pipeline.sweep.sizing import span

_LINE_EVERY_S = 20.0


class _Counter(CampaignListener):
    """The state that both outputs share."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.began = 0.0

    def phase(self, words: str, trials: int | None = None) -> None:
        self.total, self.began = trials, time.monotonic()
        self.begins(words)

    def begins(self, words: str) -> None: ...

    def words(self, trials: int) -> str:
        """`12,000 of 60,000 · 480/s · 2 min left`."""
        total, spent = self.total or 0, time.monotonic() - self.began
        text = f"{trials:,} of {total:,}"
        if trials and spent > 0:
            rate = trials / spent
            text += f" · {rate:,.0f}/s · {span((total - trials) / rate)} left"
        return text


class _Lines(_Counter):
    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0

    def begins(self, words: str) -> None:
        self._last = self.began
        count = f" {self.total:,} trials" if self.total else ""
        print(f"{words}{count}", file=sys.stderr, flush=True)

    def done(self, trials: int) -> None:
        if time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            print(f"  {self.words(trials)}", file=sys.stderr, flush=True)


class _Bar(_Counter):
    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__()
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[numbers]}", markup=False),
            console=console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def begins(self, words: str) -> None:
        if self._task is not None:
            self.progress.remove_task(self._task)
        self._task = self.progress.add_task(words, total=self.total, numbers="")

    def done(self, trials: int) -> None:
        if self._task is not None:
            self.progress.update(self._task, completed=trials, numbers=self.words(trials))


@contextmanager
def progress(*, quiet: bool) -> Iterator[CampaignListener]:
    if quiet:
        yield CampaignListener()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        bar = _Bar()
        with bar.progress:
            yield bar
