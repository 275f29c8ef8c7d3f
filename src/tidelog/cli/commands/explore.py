"""``tidelog explore``: search for a schedule that breaks an invariant, and shrink it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import (
    GenerationChoice,
    JsonOption,
    UncleanOption,
    faults_named,
    generation_named,
    guards_named,
    invariant_named,
    one_of,
    scenario_named,
)
from tidelog.cli.parameters import explore as given
from tidelog.cli.paths import check_file
from tidelog.cli.show.output import console, write_json, write_text
from tidelog.errors import Refusal
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


def explore(
    *,
    generation: GenerationChoice = "epoch",
    strategy: given.Strategy = "random",
    schedules: given.Schedules = 10_000,
    seconds: given.Seconds = None,
    seed: given.Seed = None,
    acks: given.Acks = "all",
    min_insync: given.MinInsync = 1,
    brokers: given.Brokers = 3,
    replicas: given.Replicas = 3,
    operations: given.Operations = 20,
    fault_budget: given.FaultBudget = 6,
    faults: given.FaultList = given.DEFAULT_FAULTS,
    invariant: given.InvariantOption = None,
    story: given.Story = None,
    unclean: UncleanOption = False,
    power_loss: given.PowerLoss = False,
    flush: given.Flush = "roll",
    idempotent: given.Idempotent = False,
    batch_records: given.BatchRecords = 1,
    retries: given.Retries = 2,
    depth: given.Depth = 2,
    without: given.Without = None,
    keep_going: given.KeepGoing = False,
    save: given.Save = None,
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
        acks=given.ACKS[one_of("acks", acks, tuple(given.ACKS))],
        min_insync=min_insync,
        unclean=unclean,
        flush_always=one_of("flush", flush, given.FLUSHES) == "always",
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

    return random.SystemRandom().randrange(given.SEEDS)


def _check(options: SearchOptions, save: Path | None) -> None:
    """Refuse bad options before the search, which may be long."""
    options.scenario()
    if options.idempotent and (options.acks != -1 or options.retries == 0):
        raise Refusal("an idempotent producer needs --acks all and --retries of at least 1, as in Kafka")
    check_file(save)


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
