"""``tidelog scenario``: list, show, run and compare the scenarios of the catalogue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.help import Command, Group
from tidelog.cli.options import (
    GenerationOption,
    JsonOption,
    ScenarioArgument,
    TranscriptOption,
    generation_named,
    one_of,
    scenario_named,
    scenario_text,
)
from tidelog.cli.parameters import scenario as given
from tidelog.cli.show.output import console, write_json, write_lines, write_text
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.scenario.run import Run

app = typer.Typer(
    help="Known failures by name: list, show, run, compare.",
    no_args_is_help=False,
    rich_markup_mode=None,
    cls=Group,
)


@app.command("list", cls=Command)
def list_scenarios(as_json: JsonOption = False) -> None:
    """List all scenarios with their outcome per generation.

    Example: tidelog scenario list
    """
    from tidelog.cli.show import catalogue as listing
    from tidelog.scenario import catalogue

    groups = [(g.title, [catalogue.load(name) for name in g.names]) for g in catalogue.groups()]
    if as_json:
        write_json(listing.as_json(groups))
        return
    screen = console()
    write_lines(screen, listing.listing(screen, groups))


@app.command("show", cls=Command)
def show(name: ScenarioArgument) -> None:
    """Print the scenario file.

    Example: tidelog scenario show hw-loss > mine.scenario
    """
    text = scenario_text(name)
    screen = console()
    if screen.is_terminal:
        from tidelog.cli.show.catalogue import highlighted

        write_lines(screen, highlighted(text))
    else:
        write_text(text)


@app.command("run", cls=Command)
def run_scenario(
    name: ScenarioArgument,
    *,
    generation: GenerationOption = None,
    stage: given.StageOption = "sim",
    pace: given.PaceOption = None,
    evidence: given.EvidenceOption = None,
    as_json: JsonOption = False,
    transcript: TranscriptOption = False,
    detail: given.DetailOption = False,
) -> int:
    """Play a scenario and print each step. Exit code: 0 held, 1 violated.

    Example: tidelog scenario run hw-loss --generation hw --stage cluster
    """
    from tidelog.cli.commands.scenario_cluster import play
    from tidelog.cli.show.present_run import present

    if one_of("stage", stage, given.STAGES) == "sim" and pace is not None:
        raise Refusal("--pace needs --stage cluster: the simulator needs no time")
    if stage != "sim" and evidence is not None:
        raise Refusal("--evidence needs --stage sim: for broker processes, use tidelog trial")
    played = play(scenario_named(name, generation), stage, pace)
    if evidence is not None:
        _leave_evidence(played, evidence)
    return present(played, as_json=as_json, transcript=transcript, detail=detail)


def _leave_evidence(played: Run, folder: Path) -> None:
    from tidelog.process_stage.evidence import export

    export(played, folder)
    print(f"evidence in {folder}; to audit it: tidelog audit {folder}", file=sys.stderr)


@app.command("compare", cls=Command)
def compare(
    name: ScenarioArgument,
    generation: given.Generations = None,
    stages: given.StagesOption = False,
    pace: given.PaceOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare one schedule under two or more generations. Exit code: 0, also if one loses records.

    With --stages: compare the simulator with broker processes. Exit code: 0 same end, 1 different end.

    Example: tidelog scenario compare hw-loss -g hw -g epoch -g majority
    """
    from tidelog.lab.compare import Comparison

    if stages:
        from tidelog.cli.commands.scenario_cluster import compare_stages

        return compare_stages(name, generation or [], pace, as_json=as_json)
    if pace is not None:
        raise Refusal("--pace needs --stages: the simulator needs no time")

    wanted = list(dict.fromkeys(map(generation_named, generation or ["hw", "epoch"])))
    if len(wanted) < 2:
        raise Refusal(f"nothing to compare {wanted[0]} with: give --generation twice or more")
    comparison = Comparison.of(scenario_named(name), wanted)
    if as_json:
        write_json(comparison.as_json())
    else:
        from tidelog.cli.show.comparison import side_by_side

        screen = console()
        write_lines(screen, side_by_side(screen, comparison))
    return ExitCode.HELD
