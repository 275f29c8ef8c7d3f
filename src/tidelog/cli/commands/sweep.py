"""``tidelog sweep``: simulate many trials over a grid of settings, on Spark, and draw an atlas."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption, MasterOption, RemoteOption
from tidelog.cli.parameters import sweep as given
from tidelog.cli.paths import check_file, make_folder
from tidelog.cli.show.output import console, write_json, write_text
from tidelog.errors import Refusal
from tidelog.extras import require
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


def sweep(
    grid_file: given.GridArgument = None,
    *,
    generation: given.Generations = None,
    acks: given.Acks = None,
    replicas: given.Replicas = None,
    min_insync: given.MinInsync = None,
    unclean: given.Unclean = None,
    flush: given.Flush = None,
    idempotence: given.Idempotence = None,
    retries: given.Retries = None,
    isr_rule: given.IsrRules = None,
    faults: given.FaultMixes = None,
    zones: given.Zones = None,
    without: given.Without = None,
    seeds: given.Seeds = None,
    out: given.Out = Path("atlas"),
    fresh: given.Fresh = False,
    yes: given.Yes = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    replay: given.Replay = None,
    save: given.Save = None,
    as_json: JsonOption = False,
) -> int:
    """Simulate many failures under many settings; draw an atlas. It shows how often records are lost."""
    require("spark", "tidelog sweep")
    if replay is not None:
        check_file(save)
        return _replay(replay, save)
    if save is not None:
        raise Refusal("--save needs --replay: a sweep writes to --out")
    from tidelog.pipeline.spark.session import check_place

    check_place(master, remote)
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
    _show(atlas, campaign.page, as_json=as_json)
    return ExitCode.HELD


def _show(atlas: Atlas, page: Path, *, as_json: bool) -> None:
    if as_json:
        write_json({**atlas.as_json(), "atlas": str(page)})
    else:
        from tidelog.cli.show.sweep import summary

        write_text(summary(atlas, page))


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
