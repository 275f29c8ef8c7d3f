"""One scenario on two stages as text: both ends, and the differences."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tidelog.cli.judgement import headline
from tidelog.cli.show import palette, replicas
from tidelog.cli.show.lines import wrap
from tidelog.cli.show.run import page_width
from tidelog.process_stage.compare import StageComparison
from tidelog.scenario.run import Run


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
