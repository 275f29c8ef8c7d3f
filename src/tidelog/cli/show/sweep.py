"""The result of a sweep as text: how many cells lost records, the worst of them, the path of the atlas."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidelog.cli.show.output import console
from tidelog.pipeline.sweep.campaign import Atlas, Campaign, CampaignListener, Estimate
from tidelog.pipeline.sweep.sizing import span
from tidelog.pipeline.sweep.summary import CellCount, excludes_loss

_SHOWN = 8


def plan(campaign: Campaign, estimate: Estimate) -> str:
    """How much there is to play, and what of the grid is left out."""
    grid = campaign.grid
    words = f"{len(grid.cells)} cells × {campaign.seeds:,} seeds"
    if estimate.present:
        words += f"; {estimate.present:,} trials already played"
    if estimate.trials:
        words += f"; {estimate.trials:,} to play, about {span(estimate.seconds)} on {estimate.cores} cores"
    lines = [words]
    reasons = Counter(dropped.reason for dropped in grid.dropped)
    lines += [f"  left out {count}: {reason}" for reason, count in reasons.items()]
    if grid.same_as:
        lines.append(
            f"  {len(grid.same_as)} combinations differ only in settings without effect: not played again"
        )
    return "\n".join(lines)


def summary(atlas: Atlas, page: Path) -> str:
    counts = atlas.counts
    tried = [count for count in counts if count.exercised]
    harmed = [count for count in tried if count.harmed]
    lines = [f"{atlas.trials:,} trials in {len(counts)} cells."]
    lines.append(
        f"  {len(harmed)} of {len(tried)} cells lost or changed a record that was acknowledged or read."
    )
    doubled = sum(bool(count.bad.get("duplicated")) for count in tried)
    lines.append(f"  {doubled} duplicated a record.")
    if len(tried) < len(counts):
        lines.append(f"  {len(counts) - len(tried)} are unknown: none of their faults happened.")
    lines += _troubles(counts)
    if harmed:
        lines += ["", "Most often lost:"]
        worst = sorted(harmed, key=lambda count: count.share("lost").value or 0.0, reverse=True)[:_SHOWN]
        lines += [f"  {count.share('lost').words():<22} {count.cell.name}" for count in worst]
    safe = [count for count in tried if count not in harmed]
    if safe:
        fewest = min(safe, key=lambda count: count.judged)
        lines += ["", f"Never lost: {len(safe)} cells, each in {fewest.judged:,} trials or more."]
    lines += ["", _expectation(tried)]
    lines += ["", f"The atlas: {page}", ""]
    return "\n".join(lines)


def _expectation(tried: Sequence[CellCount]) -> str:
    """Whether the cells that are expected to be lossless were."""
    sound = [count for count in tried if excludes_loss(count.cell)]
    failed = [count for count in sound if count.unexpected]
    if not sound:
        return "No cell is expected to be lossless."
    trials = sum(count.judged for count in sound)
    if not failed:
        return f"No loss in the {len(sound)} cells expected to be lossless, in {trials:,} trials."
    worst = failed[0].worst() or "lost"
    trial = f"{failed[0].cell.name}:{failed[0].examples[worst]}"
    return (
        f"UNEXPECTED: {len(failed)} of {len(sound)} cells expected to be lossless had a loss. "
        f"See tidelog sweep --replay {trial}"
    )


def _troubles(counts: Sequence[CellCount]) -> list[str]:
    lines = []
    for outcome in ("crashed", "stuck", "unrecovered"):
        number = sum(count.outcomes.get(outcome, 0) for count in counts)
        if number:
            count = next(count for count in counts if count.outcomes.get(outcome))
            what = f" ({count.trouble})" if count.trouble and outcome != "unrecovered" else ""
            trial = f"{count.cell.name}:{count.examples[outcome]}"
            lines.append(f"  {number:,} trials {outcome}{what}: tidelog sweep --replay {trial}")
    return lines


# ---------------------------------------------------------------- progress on stderr

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
