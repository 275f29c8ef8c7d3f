"""The finding of a search as a scenario file, with comments that explain it and say how to replay it."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tidelog.lab.invariants import INVARIANTS
from tidelog.lab.play import run
from tidelog.lab.search.schedule import USUAL_KINDS, Violation
from tidelog.lab.search.search import SearchOptions
from tidelog.scenario.narration import wrap_comment
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import VERDICT_KINDS, print_scenario
from tidelog.scenario.violations import Grade

_CLAIMS = {invariant.name: invariant.claim for invariant in INVARIANTS}
_GRADES = {
    Grade.DATA: "This violates a guarantee about records.",
    Grade.STRUCTURE: "No promise is broken yet, but this can lead to one.",
    Grade.LIVENESS: "No promise is broken, but the cluster does not recover.",
}


def named(finding: Violation, options: SearchOptions) -> Violation:
    """The finding, named by generation and seed, which identify it."""
    name = f"found-{options.generation}-{finding.seed}"
    title = f"{options.strategy} search: {finding.invariant} breaks"
    return replace(finding, scenario=replace(finding.scenario, name=name, title=title))


def command_line(options: SearchOptions, seed: int) -> str:
    """The command that plays this schedule of the search again."""
    words = ["tidelog", "explore", "--generation", options.generation, "--strategy", options.strategy]
    if options.strategy == "exhaustive":
        words += ["--depth", str(options.depth), "--schedules", str(options.schedules)]
    else:
        words += ["--schedules", "1", "--seed", str(seed)]
    default, faults = SearchOptions(), options.faults
    for flag, value, usual in (
        ("--acks", "all" if options.acks == -1 else str(options.acks), "all"),
        ("--min-insync", options.min_insync, default.min_insync),
        ("--brokers", options.brokers, default.brokers),
        ("--replicas", options.replicas, default.replicas),
        ("--operations", options.operations, default.operations),
        ("--faults-per-schedule", faults.budget, default.faults.budget),
        ("--retries", options.retries, default.retries),
        ("--batch-records", options.batch_records, default.batch_records),
    ):
        if value != usual:
            words += [flag, str(value)]
    for flag, given in (
        ("--unclean", options.unclean),
        ("--power-loss", "power" in faults.kinds),
        ("--idempotent", options.idempotent),
    ):
        words += [flag] if given else []
    kinds = tuple(kind for kind in faults.kinds if kind != "power")
    words += ["--faults", ",".join(kinds) or "none"] if set(kinds) != set(USUAL_KINDS) else []
    words += ["--invariant", options.invariant] if options.invariant is not None else []
    words += ["--from", options.story.name] if options.story is not None else []
    words += ["--flush", "always"] if options.flush_always else []
    for guard in options.without:
        words += ["--without", guard]
    return shlex.join(words)


def as_file(finding: Violation, options: SearchOptions, *, shrunk: bool, path: str) -> str:
    """The scenario with comments at the top. ``path`` is the file name for the commands in them."""
    played = run(finding.scenario)
    lines = wrap_comment(f"Breaks {finding.invariant}: {finding.message}.")
    if finding.invariant in _CLAIMS:
        lines += wrap_comment(f"The rule: {_CLAIMS[finding.invariant]}.")
    lines += wrap_comment(f"{_GRADES[finding.grade]} {_verdict(played)}")
    if not shrunk:
        lines += wrap_comment("This is the schedule as found, not shrunk.")
    lines += ["#", f"# Watch it:     tidelog scenario run {shlex.quote(path)}"]
    lines += [f"# Replay it:    tidelog replay {shlex.quote(path)}"]
    lines += [f"# On a page:    tidelog lab {shlex.quote(path)}"]
    lines += [f"# Find again:   {command_line(options, finding.seed)}"]
    return "\n".join(lines) + "\n\n" + print_scenario(finding.scenario)


def _verdict(played: Run) -> str:
    facts = played.facts()
    named = {kind: f"{kind} at offset" if kind == "diverged" else kind for kind in VERDICT_KINDS}
    words = [f"{named[kind]} {facts[kind].replace(',', ', ')}" for kind in VERDICT_KINDS if facts[kind]]
    return f"When it ends: {'; '.join(words) if words else 'nothing is missing from the log yet'}."
