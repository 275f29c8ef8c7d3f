"""A search on the terminal: progress, summary, and JSON.

Progress goes to stderr, and only to a terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from tidelog.lab.search.finding_file import command_line
from tidelog.lab.search.search import SearchOptions, SearchResult
from tidelog.narrate.numbers import counted


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if task.description != _SEARCHING or speed is None:
            return Text("")
        return Text(f"{speed:,.0f} schedules/s", "dim")


_SEARCHING = "searching "


class SearchProgress:
    """Bars for the search and for shrinking, removed at the end; a line for each invariant that breaks."""

    def __init__(self, screen: Console, options: SearchOptions, say: Callable[[str], None]) -> None:
        columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate()]
        # rich must not redirect stdout to the terminal: stdout may be a file.
        self.bar = Progress(
            *columns, console=screen, transient=True, redirect_stdout=False, disable=not screen.is_terminal
        )
        self._options = options
        self._say = say
        self._task = self.bar.add_task(_SEARCHING, total=options.schedules)
        self._shrinking: TaskID | None = None

    def began(self) -> None:
        self._say(opening(self._options))
        self.bar.start()

    def searched(self, schedules: int) -> None:
        self.bar.update(self._task, completed=schedules)

    def broke(self, invariant: str, schedule: int) -> None:
        self.bar.stop()  # removes the bar while the line is printed
        self._say(f"Schedule {schedule} breaks {invariant}.")
        self.bar.start()

    def shrinking(self, steps: int, left: int) -> None:
        if self._shrinking is None:
            self.bar.remove_task(self._task)
            self._shrinking = self.bar.add_task("shrinking ", total=steps)
        self.bar.update(self._shrinking, completed=max(steps - left, 0))


def opening(options: SearchOptions) -> str:
    setup = options.scenario().setup
    begin = "" if options.strategy == "exhaustive" else f", seed {options.seed}"
    most = counted(options.schedules, "schedule")
    return (
        f"Searching under {options.generation}: {options.strategy}, at most {most}"
        f"{begin}; {counted(setup.brokers, 'broker')}, "
        f"{counted(len(setup.topics[0].replicas), 'replica')}."
    )


def summary(options: SearchOptions, result: SearchResult) -> str:
    stopped = "Interrupted after" if result.interrupted else "Played"
    if result.time_up:
        stopped = "Time limit reached after"
    words = f"{stopped} {counted(result.schedules, 'schedule')}"
    if options.strategy != "exhaustive":
        words += f" (seed {options.seed})"
    elif result.exhausted:
        words += f", all there are with at most {options.depth} faults each"
    if not result.broken:
        return f"{words}: no invariant was broken."
    counts = ", ".join(f"{name} {times}×" for name, times in result.broken.items())
    return f"{words}. Broken: {counts}."


def as_json(options: SearchOptions, result: SearchResult, text: str) -> dict[str, Any]:
    finding = result.finding
    return {
        "generation": options.generation,
        "strategy": options.strategy,
        "seed": options.seed,
        "schedules": result.schedules,
        "exhausted": result.exhausted,
        "interrupted": result.interrupted,
        "broken": result.broken,
        "finding": None
        if finding is None
        else {
            "invariant": finding.invariant,
            "grade": finding.grade.value,
            "message": finding.message,
            "seed": finding.seed,
            "steps": len(finding.scenario.steps),
            "shrunk": result.shrunk,
            "command": command_line(options, finding.seed),
            "scenario": text,
        },
    }
