"""``tidelog sweep``: simulate many trials over a grid of settings, on Spark, and draw an atlas."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption
from tidelog.cli.paths import absolute, make_folder
from tidelog.cli.show.output import console, write_json, write_text
from tidelog.errors import Refusal
from tidelog.faults import SEARCH_FAULTS
from tidelog.storage.durable import write_file

if TYPE_CHECKING:
    from tidelog.pipeline.sweep.campaign import Atlas, Campaign, CampaignListener, Estimate
    from tidelog.pipeline.sweep.grid import Grid, Values

EXAMPLES = """\b
Examples:
  tidelog sweep                                   sweep the default grid, takes minutes
  tidelog sweep --generation epoch --acks all --min-insync 1,2 --faults crash,power --seeds 5000
  tidelog sweep my-grid.toml --out my-atlas       read the grid from a file
  tidelog sweep --master spark://host:7077        run on a Spark cluster
  tidelog sweep --replay CELL:SEED --save x.scenario

\b
Separate the values of a setting with commas; join faults that act together with +.
Run the same command again to resume an interrupted sweep.
Exit code: 0 swept, with or without findings; 2 wrong usage. With --replay: 1 if a promise was broken.
"""


def _axis(flag: str, metavar: str, help_: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_, show_default=False)


GridArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="GRID.toml",
        callback=absolute,
        help="File with the values of each setting.",
        show_default=False,
    ),
]
Generations = Annotated[
    str | None, _axis("--generation", "LIST", "Replication rules: hw, kip101, epoch, elr, majority.")
]
Acks = Annotated[str | None, _axis("--acks", "LIST", "acks of the producers: 0, 1, all.")]
Replicas = Annotated[str | None, _axis("--replicas", "LIST", "Replicas of the topic.")]
MinInsync = Annotated[str | None, _axis("--min-insync", "LIST", "min.insync.replicas of the topic.")]
Unclean = Annotated[str | None, _axis("--unclean", "LIST", "Unclean leader election: no, yes.")]
Flush = Annotated[
    str | None, _axis("--flush", "LIST", "When brokers sync their logs: roll (as Kafka by default), always.")
]
Idempotence = Annotated[str | None, _axis("--idempotence", "LIST", "Idempotent producers: no, yes.")]
Retries = Annotated[str | None, _axis("--retries", "LIST", "Retries of a producer.")]
IsrRules = Annotated[
    str | None,
    _axis(
        "--isr-rule",
        "LIST",
        "Rule that removes a replica from the ISR: caught-up-time, fetch-time, message-lag.",
    ),
]
FaultMixes = Annotated[
    str | None,
    _axis(
        "--faults",
        "LIST",
        f"Faults to inject: {', '.join(SEARCH_FAULTS)}; crash+power for both; "
        "or none, network, all, all-power.",
    ),
]
Zones = Annotated[str | None, _axis("--zones", "LIST", "Number of zones of the brokers.")]
Without = Annotated[
    str | None,
    _axis("--without", "LIST", "Guards of the rules to disable: none, kip320, or their names."),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, metavar="N", help="Trials per cell.", show_default="400")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", callback=absolute, help="Output directory.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete earlier results and start over.")]
Yes = Annotated[bool, typer.Option("--yes", help="Allow sweeps longer than an hour.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark master to run on.", show_default="this machine"),
]
Remote = Annotated[
    str | None,
    typer.Option(metavar="sc://H:P", help="Spark Connect server to run on.", show_default=False),
]
Replay = Annotated[
    str | None,
    typer.Option(metavar="CELL:SEED", help="Print one trial as a scenario file.", show_default=False),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --replay: write it to this file.", show_default=False),
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
    """Simulate many failures under many settings; draw an atlas. It shows how often records are lost."""
    if replay is not None:
        return _replay(replay, save)
    if save is not None:
        raise Refusal("--save needs --replay: a sweep writes to --out")
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
    make_folder(out)  # refuse a bad path before Spark starts, which takes a while
    from tidelog.cli.show.sweep import progress
    from tidelog.pipeline.sweep.campaign import Campaign
    from tidelog.pipeline.sweep.store import Store

    with progress(quiet=as_json) as listener:
        campaign = Campaign(grid, number, Store(out), listener)
        try:
            atlas = _run(campaign, listener, master=master, remote=remote, fresh=fresh, yes=yes)
        except KeyboardInterrupt:
            raise Refusal(
                f"interrupted; the trials so far are in {out}; run the same command again to resume"
            ) from None
    if as_json:
        write_json({**atlas.as_json(), "atlas": str(campaign.page)})
    else:
        from tidelog.cli.show.sweep import summary

        write_text(summary(atlas, campaign.page))
    return ExitCode.HELD


def _run(
    campaign: Campaign,
    listener: CampaignListener,
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
    listener.phase("reading earlier results and measuring the speed")
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
        words += f"; {estimate.present:,} trials already played"
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
            f"  {len(grid.same_as)} combinations differ only in settings without effect: not played again"
        )


def _agreed(estimate: Estimate, yes: bool) -> None:
    from tidelog.pipeline.sweep.sizing import ASK_FROM_S, span

    if estimate.seconds > ASK_FROM_S and not yes:
        raise Refusal(
            f"this sweep would take about {span(estimate.seconds)}: give --yes to start it, "
            "or reduce --seeds or the grid"
        )


# ---------------------------------------------------------------- the grid

_TRUTH = {"no": False, "yes": True, "false": False, "true": True}


def _grid(path: Path | None, given: Mapping[str, str]) -> tuple[Grid, int]:
    from tidelog.pipeline.sweep.grid import DEFAULT_AXES, DEFAULT_SEEDS, make_grid, read_grid

    if path is None:
        axes: dict[str, Values] = dict(DEFAULT_AXES)
        seeds = DEFAULT_SEEDS
    else:
        read = read_grid(path)
        axes, seeds = dict(read.axes), read.seeds or DEFAULT_SEEDS
    axes |= {axis: [_value(axis, word.strip()) for word in words.split(",")] for axis, words in given.items()}
    return make_grid(axes), seeds


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
    from tidelog.pipeline.sweep.cells import OPERATIONS, cell_named, faults_of
    from tidelog.scenario.scenario import print_scenario

    words, colon, seed = name.rpartition(":")
    if not colon or not (seed.isascii() and seed.isdigit()):
        raise Refusal(f"{name} is not a trial: write CELL:SEED, as in the atlas")
    try:
        cell = cell_named(words)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if (reason := cell.impossible()) is not None:
        raise Refusal(f"{words}: {reason}")
    choices: dict[str, Any] = {"operations": OPERATIONS, "faults": faults_of(cell.faults)}
    tally = play(cell.scenario(), int(seed), **choices)
    wrong = ", ".join(f"{count} {kind}" for kind, count in tally.verdict.items() if count)
    title = f"{tally.outcome}: {wrong or tally.reason or 'nothing was lost, duplicated or changed'}"
    scenario = replace(schedule(cell.scenario(), int(seed), **choices), name=f"{words}.{seed}", title=title)
    text = print_scenario(scenario)
    if save is None:
        write_text(text)
    else:
        write_file(save, text)
        write_text(f"{title}. Written to {save}.\n")
    return ExitCode.HELD if tally.outcome == "held" else ExitCode.VIOLATED
