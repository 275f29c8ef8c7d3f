"""``tidelog explore``: search for a schedule that breaks an invariant, and shrink it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import (
    JsonOption,
    faults_named,
    generation_named,
    guards_named,
    invariant_named,
    one_of,
    scenario_named,
)
from tidelog.cli.show.output import console, write_json, write_text
from tidelog.errors import Refusal
from tidelog.faults import SEARCH_FAULTS
from tidelog.storage.durable import write_file

if TYPE_CHECKING:
    from tidelog.lab.search.search import SearchOptions

EXAMPLES = """\b
Examples:
  tidelog explore --generation hw --seed 1
  tidelog explore --generation hw --invariant committed-survives
  tidelog explore --unclean --acks all --save found.scenario
  tidelog explore --without fence_fetch_by_epoch --strategy pct
  tidelog explore --strategy exhaustive --faults crash --operations 1 -g hw
  tidelog explore --from my.scenario --faults none --without fence_fetch_by_epoch
"""

ACKS = {"0": 0, "1": 1, "all": -1}
FLUSHES = ("roll", "always")
SEEDS = 1_000_000_000
DEFAULT_FAULTS = "crash,pause,cut,reset,elect"

Generation = Annotated[
    str,
    typer.Option(
        "--generation", "-g", metavar="G", help="Replication rules: hw, kip101, epoch, elr or majority."
    ),
]
Strategy = Annotated[str, typer.Option(metavar="S", help="Search strategy: random, pct or exhaustive.")]
Schedules = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of schedules.")]
Seconds = Annotated[
    float | None, typer.Option(min=0.001, metavar="S", help="Stop after this time.", show_default=False)
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Seed of the first schedule.", show_default="random, printed"),
]
Acks = Annotated[str, typer.Option(metavar="A", help="acks of the producers: 0, 1 or all.")]
MinInsync = Annotated[
    int, typer.Option("--min-insync", metavar="N", help="min.insync.replicas of the topic.")
]
Brokers = Annotated[int, typer.Option(metavar="N", help="Brokers in the cluster.")]
Replicas = Annotated[int, typer.Option(metavar="N", help="Replicas of the topic.")]
Operations = Annotated[int, typer.Option(min=1, metavar="N", help="Sends and polls per schedule.")]
FaultBudget = Annotated[
    int, typer.Option("--faults-per-schedule", min=0, metavar="N", help="Maximum faults per schedule.")
]
FaultList = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="LIST",
        help=f"Faults to inject: none, or a list of {', '.join(SEARCH_FAULTS)}.",
    ),
]
Wanted = Annotated[
    str | None,
    typer.Option(
        "--invariant",
        metavar="NAME",
        help="Search until this invariant breaks.",
        show_default="any data invariant",
    ),
]
Story = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="NAME",
        help="Start every schedule from the end of this scenario (a name or a file).",
        show_default=False,
    ),
]
Unclean = Annotated[bool, typer.Option("--unclean", help="Allow unclean leader election.")]
PowerLoss = Annotated[bool, typer.Option("--power-loss", help="Allow power loss; unsynced data is lost.")]
Flush = Annotated[
    str, typer.Option(metavar="F", help="When brokers sync their logs: roll (as Kafka by default) or always.")
]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="Use idempotent producers.")]
BatchRecords = Annotated[
    int, typer.Option(min=1, metavar="N", help="Records of a batch: each send draws 1 to N.")
]
Retries = Annotated[int, typer.Option(min=0, metavar="N", help="Retries of a producer.")]
Depth = Annotated[
    int, typer.Option(min=0, metavar="D", help="Exhaustive search: maximum faults per schedule.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="GUARD", help="Disable a guard of the rules; repeatable.", show_default=False),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Do not stop at the first violation; count all of them.")
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the shrunk schedule to this file.", show_default=False),
]


def explore(
    *,
    generation: Generation = "epoch",
    strategy: Strategy = "random",
    schedules: Schedules = 10_000,
    seconds: Seconds = None,
    seed: Seed = None,
    acks: Acks = "all",
    min_insync: MinInsync = 1,
    brokers: Brokers = 3,
    replicas: Replicas = 3,
    operations: Operations = 20,
    fault_budget: FaultBudget = 6,
    faults: FaultList = DEFAULT_FAULTS,
    invariant: Wanted = None,
    story: Story = None,
    unclean: Unclean = False,
    power_loss: PowerLoss = False,
    flush: Flush = "roll",
    idempotent: Idempotent = False,
    batch_records: BatchRecords = 1,
    retries: Retries = 2,
    depth: Depth = 2,
    without: Without = None,
    keep_going: KeepGoing = False,
    save: Save = None,
    as_json: JsonOption = False,
) -> int:
    """Search for a schedule that breaks an invariant, and shrink it. Exit code: 0 none found, 1 found."""
    from tidelog.lab.search.search import STRATEGIES, SearchOptions

    options = SearchOptions(
        generation=generation_named(generation),
        strategy=one_of("strategy", strategy, STRATEGIES),
        schedules=schedules,
        seed=_random_seed() if seed is None else seed,
        brokers=brokers,
        replicas=replicas,
        acks=ACKS[one_of("acks", acks, tuple(ACKS))],
        min_insync=min_insync,
        unclean=unclean,
        flush_always=one_of("flush", flush, FLUSHES) == "always",
        retries=retries,
        idempotent=idempotent,
        batch_records=batch_records,
        operations=operations,
        faults=faults_named(faults, power=power_loss, budget=fault_budget),
        depth=depth,
        without=guards_named(without or []),
        invariant=invariant_named(invariant) if invariant is not None else None,
        story=replace(scenario_named(story), name=story) if story is not None else None,
    )
    _check(options, save)
    return _explore(options, seconds=seconds, keep_going=keep_going, save=save, as_json=as_json)


def _random_seed() -> int:
    import random

    return random.SystemRandom().randrange(SEEDS)


def _check(options: SearchOptions, save: Path | None) -> None:
    """Refuse bad options before the search, which may be long."""

    options.scenario()
    if options.idempotent and (options.acks != -1 or options.retries == 0):
        raise Refusal("an idempotent producer needs --acks all and --retries of at least 1, as in Kafka")
    if save is not None and save.is_dir():
        raise Refusal(f"{save}: this is a directory, not a file")
    if save is not None and not save.parent.is_dir():
        raise Refusal(f"{save}: there is no directory {save.parent}")


def _explore(
    options: SearchOptions, *, seconds: float | None, keep_going: bool, save: Path | None, as_json: bool
) -> int:
    from tidelog.cli.show import search as show
    from tidelog.lab.search.finding_file import as_file, command_line, named
    from tidelog.lab.search.search import find

    def say(text: str) -> None:
        if not as_json:
            write_text(text + "\n")

    progress = show.SearchProgress(console(stderr=True), options, say)
    result = find(options, seconds=seconds, keep_going=keep_going, watcher=progress)
    progress.bar.stop()
    text, finding = "", result.finding
    if finding is not None:
        finding = result.finding = named(finding, options)
        path = str(save) if save is not None else f"{finding.scenario.name}.scenario"
        text = as_file(finding, options, shrunk=result.shrunk, path=path)
    if as_json:
        write_json(show.as_json(options, result, text))
    else:
        say(show.summary(options, result))
        if result.shrunk:
            say("\n" + text.rstrip("\n"))
    if finding is None:
        return ExitCode.HELD
    if save is None:
        again = command_line(options, finding.seed)
        say(f"\nTo save it: {again} --save {finding.scenario.name}.scenario")
    else:
        write_file(save, text)
        say(f"\nWritten to {save}. To open it on the web page: tidelog lab {shlex.quote(str(save))}")
    return ExitCode.VIOLATED
