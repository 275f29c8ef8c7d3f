"""``tidelog explore``: search for a schedule that breaks an invariant, and shrink it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli import completion
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import (
    GenerationChoice,
    JsonOption,
    UncleanOption,
    faults_named,
    flag,
    generation_named,
    guards_named,
    invariant_named,
    one_of,
    scenario_named,
    value,
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

Strategy = Annotated[
    str,
    value(
        "S",
        "Search strategy: random, pct or exhaustive.",
        autocompletion=completion.words("random", "pct", "exhaustive"),
    ),
]
Schedules = Annotated[int, value("N", "Maximum number of schedules.", min=1)]
Seconds = Annotated[float | None, value("S", "Stop after this time.", default=False, min=0.001)]
Seed = Annotated[
    int | None,
    value("N", "Seed of the first schedule.", default="random, printed", min=0),
]
Acks = Annotated[
    str, value("A", "acks of the producers: 0, 1 or all.", autocompletion=completion.words(*ACKS))
]
MinInsync = Annotated[int, value("N", "min.insync.replicas of the topic.", "--min-insync")]
Brokers = Annotated[int, value("N", "Brokers in the cluster.")]
Replicas = Annotated[int, value("N", "Replicas of the topic.")]
Operations = Annotated[int, value("N", "Sends and polls per schedule.", min=1)]
FaultBudget = Annotated[int, value("N", "Maximum faults per schedule.", "--faults-per-schedule", min=0)]
FaultList = Annotated[
    str,
    value(
        "LIST",
        f"Faults to inject: none, or a list of {', '.join(SEARCH_FAULTS)}.",
        "--faults",
        autocompletion=completion.lists(completion.search_faults),
    ),
]
InvariantOption = Annotated[
    str | None,
    value(
        "NAME",
        "Search until this invariant breaks.",
        "--invariant",
        default="any data invariant",
        autocompletion=completion.invariants,
    ),
]
Story = Annotated[
    str | None,
    value(
        "NAME",
        "Start every schedule from the end of this scenario (a name or a file).",
        "--from",
        default=False,
        autocompletion=completion.scenarios,
    ),
]
PowerLoss = Annotated[bool, flag("Allow power loss; unsynced data is lost.", "--power-loss")]
Flush = Annotated[
    str,
    value(
        "F",
        "When brokers sync their logs: roll (as Kafka by default) or always.",
        autocompletion=completion.words(*FLUSHES),
    ),
]
Idempotent = Annotated[bool, flag("Use idempotent producers.", "--idempotent")]
BatchRecords = Annotated[int, value("N", "Records of a batch: each send draws 1 to N.", min=1)]
Retries = Annotated[int, value("N", "Retries of a producer.", min=0)]
Depth = Annotated[int, value("D", "Exhaustive search: maximum faults per schedule.", min=0)]
Without = Annotated[
    list[str] | None,
    value(
        "GUARD", "Disable a guard of the rules; repeatable.", default=False, autocompletion=completion.guards
    ),
]
KeepGoing = Annotated[bool, flag("Do not stop at the first violation; count all of them.", "--keep-going")]
Save = Annotated[
    Path | None,
    value("FILE", "Write the shrunk schedule to this file.", default=False),
]


def explore(
    *,
    generation: GenerationChoice = "epoch",
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
    invariant: InvariantOption = None,
    story: Story = None,
    unclean: UncleanOption = False,
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
