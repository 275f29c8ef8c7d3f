"""``tidelog sweep``: simulate many trials over a grid of settings, on Spark, and draw an atlas."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import completion
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption, MasterOption, RemoteOption, flag, value
from tidelog.cli.paths import absolute, make_folder
from tidelog.cli.show.output import console, write_json, write_text
from tidelog.errors import Refusal
from tidelog.extras import require
from tidelog.faults import SEARCH_FAULTS
from tidelog.storage.durable import write_file

if TYPE_CHECKING:
    from tidelog.pipeline.sweep.campaign import Atlas, Campaign, CampaignListener, Estimate

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


def _axis(flag: str, metavar: str, help_: str, names: Callable[[], Iterable[str]] | None = None) -> Any:
    return value(metavar, help_, flag, default=False, autocompletion=names and completion.lists(names))


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
    str | None,
    _axis(
        "--generation",
        "LIST",
        "Replication rules: hw, kip101, epoch, elr, majority.",
        lambda: completion.generations(""),
    ),
]
Acks = Annotated[
    str | None, _axis("--acks", "LIST", "acks of the producers: 0, 1, all.", lambda: ("0", "1", "all"))
]
Replicas = Annotated[str | None, _axis("--replicas", "LIST", "Replicas of the topic.")]
MinInsync = Annotated[str | None, _axis("--min-insync", "LIST", "min.insync.replicas of the topic.")]
Unclean = Annotated[
    str | None, _axis("--unclean", "LIST", "Unclean leader election: no, yes.", lambda: ("no", "yes"))
]
Flush = Annotated[
    str | None,
    _axis(
        "--flush",
        "LIST",
        "When brokers sync their logs: roll (as Kafka by default), always.",
        lambda: ("roll", "always"),
    ),
]
Idempotence = Annotated[
    str | None, _axis("--idempotence", "LIST", "Idempotent producers: no, yes.", lambda: ("no", "yes"))
]
Retries = Annotated[str | None, _axis("--retries", "LIST", "Retries of a producer.")]
IsrRules = Annotated[
    str | None,
    _axis(
        "--isr-rule",
        "LIST",
        "Rule that removes a replica from the ISR: caught-up-time, fetch-time, message-lag.",
        lambda: ("caught-up-time", "fetch-time", "message-lag"),
    ),
]
FaultMixes = Annotated[
    str | None,
    _axis(
        "--faults",
        "LIST",
        f"Faults to inject: {', '.join(SEARCH_FAULTS)}; crash+power for both; "
        "or none, network, all, all-power.",
        completion.search_faults,
    ),
]
Zones = Annotated[str | None, _axis("--zones", "LIST", "Number of zones of the brokers.")]
Without = Annotated[
    str | None,
    _axis("--without", "LIST", "Guards of the rules to disable: none, kip320, or their names."),
]
Seeds = Annotated[int | None, value("N", "Trials per cell.", "--seeds", default="400", min=1)]
Out = Annotated[Path, value("DIR", "Output directory.", "--out", callback=absolute)]
Fresh = Annotated[bool, flag("Delete earlier results and start over.", "--fresh")]
Yes = Annotated[bool, flag("Allow sweeps longer than an hour.", "--yes")]
Replay = Annotated[
    str | None,
    value("CELL:SEED", "Print one trial as a scenario file.", default=False),
]
Save = Annotated[
    Path | None,
    value("FILE", "With --replay: write it to this file.", default=False),
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
    master: MasterOption = None,
    remote: RemoteOption = None,
    replay: Replay = None,
    save: Save = None,
    as_json: JsonOption = False,
) -> int:
    """Simulate many failures under many settings; draw an atlas. It shows how often records are lost."""
    require("spark", "tidelog sweep")
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
    from tidelog.pipeline.sweep.requests import grid_from

    grid, usual = grid_from(grid_file, {axis: words for axis, words in given.items() if words is not None})
    make_folder(out)  # refuse a bad path before Spark starts, which takes a while
    from tidelog.cli.show.sweep import progress
    from tidelog.pipeline.sweep.campaign import Campaign
    from tidelog.pipeline.sweep.store import Store

    with progress(quiet=as_json) as listener:
        campaign = Campaign(grid, seeds or usual, Store(out), listener)
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
    from tidelog.cli.show.sweep import plan
    from tidelog.pipeline.spark.session import open_session
    from tidelog.pipeline.sweep.atlas import render

    listener.phase("starting Spark")
    spark = open_session(master=master, remote=remote, app="tidelog sweep", quick=True)
    listener.phase("reading earlier results and measuring the speed")
    estimate = campaign.prepare(spark, fresh=fresh)
    console(stderr=True).print(plan(campaign, estimate))
    _agreed(estimate, yes)
    campaign.play(spark)
    command = shlex.join(["tidelog", *sys.argv[1:]]) if sys.argv[1:2] == ["sweep"] else "tidelog sweep"
    return campaign.conclude(spark, command=command, draw=render)


def _agreed(estimate: Estimate, yes: bool) -> None:
    from tidelog.pipeline.sweep.sizing import ASK_FROM_S, span

    if estimate.seconds > ASK_FROM_S and not yes:
        raise Refusal(
            f"this sweep would take about {span(estimate.seconds)}: give --yes to start it, "
            "or reduce --seeds or the grid"
        )


def _replay(name: str, save: Path | None) -> int:
    from tidelog.pipeline.sweep.requests import replayed

    trial = replayed(name)
    if save is None:
        write_text(trial.text)
    else:
        write_file(save, trial.text)
        write_text(f"{trial.title}. Written to {save}.\n")
    return ExitCode.HELD if trial.held else ExitCode.VIOLATED
