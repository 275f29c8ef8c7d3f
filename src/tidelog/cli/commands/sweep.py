"""``tidelog sweep``: very many simulated trials over a grid of settings, on Spark; and an atlas of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.errors import ExitCode, Refusal
from tidelog.cli.options import JsonOption
from tidelog.cli.paths import absolute, make_folder
from tidelog.cli.show.output import console, write_file, write_json, write_text

if TYPE_CHECKING:
    from tidelog.pipeline.sweep.campaign import Atlas, Campaign, Estimate, Listener
    from tidelog.pipeline.sweep.grid import Grid, Values

EXAMPLES = """\b
Examples:
  tidelog sweep                                   the usual grid, in a few minutes
  tidelog sweep --generation epoch --acks all --min-insync 1,2 --faults crash,power --seeds 5000
  tidelog sweep my-grid.toml --out my-atlas       settings from a file
  tidelog sweep --master spark://host:7077        the same work on a cluster
  tidelog sweep --replay CELL:SEED --save x.scenario

\b
Several values of a setting are separated by commas; faults that come together by +.
A sweep that was interrupted goes on when the same command is given again.
Exit code: 0 swept, whatever was found; 2 wrong usage. With --replay: 1 if a promise was broken.
"""


def _axis(flag: str, metavar: str, help_: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_, show_default=False)


GridArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="GRID.toml",
        callback=absolute,
        help="A file with the values of each setting.",
        show_default=False,
    ),
]
Generations = Annotated[str | None, _axis("--generation", "LIST", "Rules: hw, kip101, epoch, majority.")]
Acks = Annotated[str | None, _axis("--acks", "LIST", "What producers wait for: 0, 1, all.")]
Replicas = Annotated[str | None, _axis("--replicas", "LIST", "Copies of the topic.")]
MinInsync = Annotated[str | None, _axis("--min-insync", "LIST", "min.insync.replicas of the topic.")]
Unclean = Annotated[str | None, _axis("--unclean", "LIST", "Unclean leader election: no, yes.")]
Flush = Annotated[str | None, _axis("--flush", "LIST", "When logs are synced: roll (rarely), always.")]
Idempotence = Annotated[str | None, _axis("--idempotence", "LIST", "Idempotent producers: no, yes.")]
Retries = Annotated[str | None, _axis("--retries", "LIST", "How often a producer tries again.")]
IsrRules = Annotated[
    str | None, _axis("--isr-rule", "LIST", "Who leaves the ISR: caught-up-time, fetch-time, message-lag.")
]
FaultMixes = Annotated[
    str | None,
    _axis(
        "--faults",
        "LIST",
        "What fails: crash, power, pause, cut, zone, blackout, reset, keeper, elect; "
        "crash+power for both; none, network, all, all-power.",
    ),
]
Zones = Annotated[str | None, _axis("--zones", "LIST", "Over how many zones the brokers are spread.")]
Without = Annotated[
    str | None,
    _axis("--without", "LIST", "Guards of the rules to switch off: kip320, or names; none for all on."),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, metavar="N", help="Trials in each cell.", show_default="400")
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", callback=absolute, help="Where the trials and the atlas go.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Throw away what is there, and begin anew.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start also what takes longer than an hour.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark master instead of this machine.", show_default=False),
]
Remote = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark Connect server, sc://host:15002.", show_default=False),
]
Replay = Annotated[
    str | None,
    typer.Option(metavar="CELL:SEED", help="Print this one trial as a scenario file.", show_default=False),
]
Save = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --replay: write it there.", show_default=False)
]


def sweep(
    grid_file: GridArgument = None,
    *,
    generation: Generations = None,
    acks: Acks = None,
    replicas: Replicas = None,
    min_insync: MinInsync = None,
    unclean: Unclean = None,
    flush: Flush = None,
    idempotence: Idempotence = None,
    retries: Retries = None,
    isr_rule: IsrRules = None,
    faults: FaultMixes = None,
    zones: Zones = None,
    without: Without = None,
    seeds: Seeds = None,
    out: Out = Path("atlas"),
    fresh: Fresh = False,
    yes: Yes = False,
    master: Master = None,
    remote: Remote = None,
    replay: Replay = None,
    save: Save = None,
    as_json: JsonOption = False,
) -> int:
    """Play many simulated failures of many configurations, and draw an atlas of what each of them loses."""
    if replay is not None:
        return _replay(replay, save)
    if save is not None:
        raise Refusal("--save is for --replay: a sweep writes into --out")
    given = {
        "generation": generation,
        "acks": acks,
        "replicas": replicas,
        "min_insync": min_insync,
        "unclean": unclean,
        "flush": flush,
        "idempotent": idempotence,
        "retries": retries,
        "isr_rule": isr_rule,
        "faults": faults,
        "zones": zones,
        "without": without,
    }
    grid, number = _grid(grid_file, {axis: words for axis, words in given.items() if words is not None})
    number = seeds or number
    make_folder(out)  # said before Spark starts, which takes a while
    from tidelog.cli.show.sweep_progress import progress
    from tidelog.pipeline.errors import PipelineError
    from tidelog.pipeline.sweep.campaign import Campaign
    from tidelog.pipeline.sweep.store import Store

    with progress(quiet=as_json) as listener:
        campaign = Campaign(grid, number, Store(out), listener)
        try:
            atlas = _run(campaign, listener, master=master, remote=remote, fresh=fresh, yes=yes)
        except PipelineError as error:
            raise Refusal(str(error)) from None
        except KeyboardInterrupt:
            raise Refusal(
                f"interrupted; what was played is in {out}, and the same command goes on from there"
            ) from None
    if as_json:
        write_json({**atlas.as_json(), "atlas": str(campaign.page)})
    else:
        from tidelog.cli.show.sweep import summary

        write_text(summary(atlas, campaign.page))
    return ExitCode.HELD


def _run(
    campaign: Campaign,
    listener: Listener,
    *,
    master: str | None,
    remote: str | None,
    fresh: bool,
    yes: bool,
) -> Atlas:
    from tidelog.pipeline.spark.session import open_session
    from tidelog.pipeline.sweep.atlas import render

    listener.phase("starting Spark")
    spark = open_session(master=master, remote=remote, app="tidelog sweep", quick=True)
    listener.phase("looking what is there, and how fast this is")
    estimate = campaign.prepare(spark, fresh=fresh)
    _say(campaign, estimate)
    _agreed(estimate, yes)
    campaign.play(spark)
    command = shlex.join(["tidelog", *sys.argv[1:]]) if sys.argv[1:2] == ["sweep"] else "tidelog sweep"
    return campaign.conclude(spark, command=command, draw=render)


def _say(campaign: Campaign, estimate: Estimate) -> None:
    from tidelog.pipeline.sweep.sizing import span

    screen, grid = console(stderr=True), campaign.grid
    words = f"{len(grid.cells)} cells × {campaign.seeds:,} seeds"
    if estimate.present:
        words += f"; {estimate.present:,} trials are there already"
    if estimate.trials:
        words += f"; {estimate.trials:,} to play, about {span(estimate.seconds)} on {estimate.cores} cores"
    screen.print(words)
    reasons: dict[str, int] = {}
    for dropped in grid.dropped:
        reasons[dropped.reason] = reasons.get(dropped.reason, 0) + 1
    for reason, count in reasons.items():
        screen.print(f"  left out {count}: {reason}")
    if grid.same_as:
        screen.print(
            f"  {len(grid.same_as)} combinations differ only in settings without effect: played once"
        )


def _agreed(estimate: Estimate, yes: bool) -> None:
    from tidelog.pipeline.sweep.sizing import ASK_FROM_S, span

    if estimate.seconds > ASK_FROM_S and not yes:
        raise Refusal(
            f"this sweep would take about {span(estimate.seconds)}: give --yes to start it, "
            "or fewer --seeds or values"
        )


# ---------------------------------------------------------------- the grid

_TRUTH = {"no": False, "yes": True, "false": False, "true": True}


def _grid(path: Path | None, given: Mapping[str, str]) -> tuple[Grid, int]:
    from tidelog.pipeline.sweep.grid import DEFAULT_AXES, DEFAULT_SEEDS, GridError, make_grid
    from tidelog.pipeline.sweep.grid_file import read_grid

    try:
        if path is None:
            axes: dict[str, Values] = dict(DEFAULT_AXES)
            seeds = DEFAULT_SEEDS
        else:
            read = read_grid(path)
            axes, seeds = dict(read.axes), read.seeds or DEFAULT_SEEDS
        axes |= {
            axis: [_value(axis, word.strip()) for word in words.split(",")] for axis, words in given.items()
        }
        return make_grid(axes), seeds
    except GridError as error:
        raise Refusal(str(error)) from None


def _value(axis: str, word: str) -> str | int | bool:
    flag = "idempotence" if axis == "idempotent" else axis.replace("_", "-")
    if axis in ("unclean", "idempotent"):
        if word not in _TRUTH:
            raise Refusal(f"--{flag} {word}: write no, yes or no,yes")
        return _TRUTH[word]
    if axis in ("replicas", "min_insync", "retries", "zones"):
        if not (word.isascii() and word.isdigit()):
            raise Refusal(f"--{flag} {word}: write whole numbers, separated by commas")
        return int(word)
    return "" if axis == "without" and word == "none" else word


# ---------------------------------------------------------------- one trial


def _replay(name: str, save: Path | None) -> int:
    from dataclasses import replace

    from tidelog.lab.search.count import play, schedule
    from tidelog.pipeline.sweep.cells import OPERATIONS, cell_named
    from tidelog.pipeline.sweep.mixes import faults_of
    from tidelog.scenario.scenario import print_scenario

    words, colon, seed = name.rpartition(":")
    if not colon or not (seed.isascii() and seed.isdigit()):
        raise Refusal(f"{name} names no trial: write CELL:SEED, as the atlas does")
    try:
        cell = cell_named(words)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if (reason := cell.impossible()) is not None:
        raise Refusal(f"{words}: {reason}")
    choices: dict[str, Any] = {"operations": OPERATIONS, "faults": faults_of(cell.faults)}
    tally = play(cell.scenario(), int(seed), **choices)
    wrong = ", ".join(f"{count} {kind}" for kind, count in tally.verdict.items() if count)
    told = f"{tally.outcome}: {wrong or tally.reason or 'nothing was lost, duplicated or changed'}"
    scenario = replace(schedule(cell.scenario(), int(seed), **choices), name=f"{words}.{seed}", title=told)
    text = print_scenario(scenario)
    if save is None:
        write_text(text)
    else:
        try:
            write_file(save, text)
        except OSError as error:
            raise Refusal(f"{save}: {(error.strerror or str(error)).lower()}") from None
        write_text(f"{told}. Written to {save}.\n")
    return ExitCode.HELD if tally.outcome == "held" else ExitCode.VIOLATED
