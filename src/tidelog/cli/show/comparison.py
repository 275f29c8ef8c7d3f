"""A comparison as text: each step once, and below it a column for each generation.

Columns that do not fit side by side follow below.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tidelog.cli.show import palette, replicas
from tidelog.cli.show.lines import BETWEEN, beside, box, rule, wrap
from tidelog.cli.show.run import (
    event_lines,
    heading,
    opening,
    page_width,
    paragraph,
    remark,
    style_of,
    verdict_lines,
    without_gaps,
)
from tidelog.core.events import Truncated
from tidelog.lab.compare import Comparison, essence, essence_of_replica
from tidelog.narrate.verdict import headline
from tidelog.process_stage.compare import StageComparison
from tidelog.scenario.clients.events import Acknowledged, RecordRead, SendFailed
from tidelog.scenario.run import Run
from tidelog.scenario.snapshot import PartitionSnapshot, Snapshot

_INDENT = 5
_MARKED = "≠ marks what is not as under"
_COLUMN_WIDTH_MIN = 34
_PAGE_WIDTH_MAX = 160
_SHOWN_EVENTS = (Acknowledged, SendFailed, RecordRead, Truncated)
"""The events that explain a difference between generations; ``scenario run`` shows all."""


class _Layout:
    def __init__(self, screen: Console, comparison: Comparison) -> None:
        self.screen = screen
        self.comparison = comparison
        self.width = max(min(screen.width, _PAGE_WIDTH_MAX), 40)
        room = self.width - _INDENT
        self.abreast = min(len(comparison.runs), max(1, (room + 3) // (_COLUMN_WIDTH_MIN + len(BETWEEN))))
        self.column = (room - (self.abreast - 1) * len(BETWEEN)) // self.abreast

    def rows(self, columns: list[list[Text]]) -> list[Text]:
        """The columns, as many side by side as fit."""
        lines: list[Text] = []
        for start in range(0, len(columns), self.abreast):
            lines += beside(columns[start : start + self.abreast], self.column, _INDENT)
        return lines


def side_by_side(screen: Console, comparison: Comparison) -> list[Text]:
    layout = _Layout(screen, comparison)
    scenario = comparison.runs[0].scenario
    width = min(layout.width, page_width(screen))
    lines = opening(
        screen, scenario, comparison.generations, width, f"{_MARKED} {comparison.generations[0]}."
    )
    parts_at = comparison.parts_at
    for step in range(comparison.steps):
        if step == parts_at:
            names = " | ".join(" = ".join(names) for names in _alike(comparison, step))
            lines += [Text(), rule(f"first difference: {names}", layout.width, palette.BAD, "━")]
        lines += _step(layout, step)
    return without_gaps([*lines, Text(), *_ending(layout, parts_at)])


def _alike(comparison: Comparison, step: int) -> list[list[str]]:
    """Groups of generations that have the same state after a step."""
    groups: list[tuple[object, list[str]]] = []
    for which, generation in enumerate(comparison.generations):
        found = essence(comparison.snapshot(which, step))
        for known, names in groups:
            if known == found:
                names.append(generation)
                break
        else:
            groups.append((found, [generation]))
    return [names for _, names in groups]


def _step(layout: _Layout, step: int) -> list[Text]:
    comparison = layout.comparison
    longest = max(comparison.runs, key=lambda r: len(r.played))
    lines = _narration(layout, step)
    lines += heading(layout.screen, step, longest.played[step], layout.width)
    columns = [_column(layout, which, step) for which in range(len(comparison.runs))]
    if not any(columns):
        return lines
    return [*lines, *layout.rows(_filled(layout, columns, step)), Text()]


def _narration(layout: _Layout, step: int) -> list[Text]:
    """What is true of all runs first; then, by name, what is true of some."""
    runs = layout.comparison.runs
    narrated = [run.narration(step) if step < len(run.played) else [] for run in runs]
    passages = dict.fromkeys(text for texts in narrated for text in texts)
    under = {
        text: [g for g, texts in zip(layout.comparison.generations, narrated, strict=True) if text in texts]
        for text in passages
    }
    common = " ".join(text for text, names in under.items() if len(names) == len(runs))
    lines = paragraph(layout.screen, common, layout.width)
    for text, names in under.items():
        if len(names) < len(runs):
            lines += paragraph(layout.screen, f"{', '.join(names)}: {text}", layout.width)
    return lines


def _filled(layout: _Layout, columns: list[list[Text]], step: int) -> list[list[Text]]:
    """Add name and state to every column, also where nothing changed, so that they can be compared."""
    titled = []
    for which, column in enumerate(columns):
        title = Text(layout.comparison.generations[which], "bold underline")
        happened = [line for line in column if line.plain]
        titled.append([title, *happened])
    deepest = [
        max(len(c) for c in titled[start : start + layout.abreast])
        for start in range(0, len(titled), layout.abreast)
    ]
    for which, column in enumerate(titled):
        padding = deepest[which // layout.abreast] - len(column)
        column += [Text()] * padding
        column += _state(layout, which, step)
    return titled


def _column(layout: _Layout, which: int, step: int) -> list[Text]:
    """What happened in one run during a step; a single blank line if only the state changed."""
    played = layout.comparison.runs[which].played
    if step >= len(played):
        return []
    lines = remark(layout.screen, played[step], layout.column)
    events = [event for _, event in played[step].events if isinstance(event, _SHOWN_EVENTS)]
    several = len(played[step].after.partitions) > 1
    lines += event_lines(layout.screen, events, layout.column, several=several)
    if not lines and (step == 0 or _looks(played[step].after) != _looks(played[step - 1].after)):
        lines = [Text()]
    return lines


def _looks(snapshot: Snapshot) -> list[object]:
    return [
        (p.leader, p.leader_epoch, p.isr, [replicas.seen(r) for r in p.replicas]) for p in snapshot.partitions
    ]


def _state(layout: _Layout, which: int, step: int) -> list[Text]:
    comparison = layout.comparison
    snapshot, first = comparison.snapshot(which, step), comparison.snapshot(0, step)
    lines: list[Text] = []
    for partition, reference in zip(snapshot.partitions, first.partitions, strict=True):
        head = replicas.partition_text(snapshot, partition, short=True)
        differs = (partition.leader, sorted(partition.isr)) != (reference.leader, sorted(reference.isr))
        lines.append(Text.assemble(("≠ ", palette.BAD) if differs else "  ", head))
        lines += replicas.compact_table(partition, _differing(partition, reference), layout.column)
    return lines


def _differing(partition: PartitionSnapshot, reference: PartitionSnapshot) -> list[bool]:
    return [
        essence_of_replica(mine) != essence_of_replica(other)
        for mine, other in zip(partition.replicas, reference.replicas, strict=True)
    ]


def _ending(layout: _Layout, parts_at: int | None) -> list[Text]:
    comparison = layout.comparison
    if parts_at is None:
        text = "No difference: the same leader, ISR, records and high watermarks after every step."
    elif comparison.same_after(comparison.steps - 1):
        text = f"They differ from step {parts_at} on and are the same again in the end."
    else:
        text = f"They differ from step {parts_at} on and end differently."
    lines = [*wrap(layout.screen, Text(text, palette.STRONG), layout.width), Text()]
    abreast = layout.abreast
    width = (layout.width - (abreast - 1)) // abreast
    verdicts = [_verdict(layout.screen, run, width) for run in comparison.runs]
    for start in range(0, len(verdicts), abreast):
        lines += beside(verdicts[start : start + abreast], width, between=" ")
    return lines


def _verdict(screen: Console, run: Run, width: int) -> list[Text]:
    body = verdict_lines(screen, run, width - 4, short=True)
    return box(headline(run, short=True), body, width, style_of(run))


# ---------------------------------------------------------------- two stages


def differences(screen: Console, compared: StageComparison) -> list[Text]:
    width = page_width(screen)
    scenario = compared.first.scenario
    lines = wrap(screen, Text(scenario.title or scenario.name, palette.STRONG), width)
    for run in (compared.first, compared.second):
        lines += [Text(), *wrap(screen, headline(run), width, marker=f"{run.stage:<8} "), *_end(run, width)]
    lines.append(Text())
    if compared.same:
        return [*lines, Text("Both stages end in the same state.", palette.GOOD)]
    lines.append(Text("The stages differ:", palette.BAD))
    for found in compared.differences:
        lines += wrap(screen, f"{found.kind}, {found.where}", width, marker="  ")
        lines += wrap(screen, found.first or "nothing", width, marker=f"    {compared.first.stage:<8} ")
        lines += wrap(screen, found.second or "nothing", width, marker=f"    {compared.second.stage:<8} ")
    return lines


def _end(run: Run, width: int) -> list[Text]:
    lines = []
    for partition in run.final.partitions:
        lines.append(Text("  ").append_text(replicas.partition_text(run.final, partition)))
        lines += replicas.table(partition, None, width)
    return lines
