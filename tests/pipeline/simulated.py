"""Simulated runs as evidence, many in one folder: the topic of run 17 is `17/t`, so one job judges all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.pipeline.judged import found_rows

from tidelog.core.types import InvariantViolation
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, READS, RECORDS, REPLICAS
from tidelog.lab.play import run
from tidelog.lab.search.schedule import DECIDERS, FaultChoice, Schedule
from tidelog.lab.search.search import SearchOptions
from tidelog.lab.world.snapshot import judge, take
from tidelog.lab.world.stage import script_runner
from tidelog.lab.world.world import World
from tidelog.process_stage import evidence as lab_evidence
from tidelog.scenario import catalogue
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.verdict import ledger_of
from tidelog.scenario.violations import Broken

GENERATIONS = ("hw", "kip101", "epoch", "majority")

Facts = dict[str, set[tuple[object, ...]]]


def catalogue_runs() -> list[Run]:
    """Every known failure under every generation."""
    return [
        run(catalogue.load(name).under(generation))
        for name in catalogue.names()
        for generation in GENERATIONS
    ]


OPTIONS = [
    SearchOptions(
        generation=generation,
        acks=acks,
        unclean=unclean,
        idempotent=idempotent,
        min_insync=least,
        faults=FaultChoice().also("power") if power else FaultChoice(),
    )
    for generation in GENERATIONS
    for acks, idempotent, least in ((-1, False, 1), (-1, True, 2), (1, False, 1), (0, False, 1))
    for unclean in (False, True)
    for power in (False, True)
]
"""Clusters that lose, repeat and rewrite in all the ways there are, and some that do not."""


def random_run(number: int) -> Run:
    """The run of one seed: some end in the middle of things, most after everything was healed."""
    options = OPTIONS[number % len(OPTIONS)]
    scenario = options.scenario()
    trial = Schedule(scenario, options.operations, options.faults)
    rng = Random(number)
    decide = DECIDERS["pct" if rng.random() < 0.5 else "random"]
    try:
        trial.begin()
        decide(trial, rng)
        if rng.random() < 0.8:
            trial.finish()
    except (Broken, InvariantViolation):
        pass  # what broke is what the verdict is about
    return play(trial.as_scenario())


def play(scenario: Scenario) -> Run:
    """`run` without a snapshot of every step."""
    events: list[tuple[int, object]] = []
    played: list[Played] = []
    world: World | None = None

    def observe(event: object) -> None:
        if world is not None:
            events.append((world.now, event))

    world = World(scenario.setup, observe)
    actions = script_runner(scenario, world)
    try:
        for step in scenario.steps:
            actions.perform(step)
            if events:
                played.append(Played(step, (), events, None))  # type: ignore[arg-type]
                events = []
    except InvariantViolation:
        pass
    played.append(Played(None, (), events, take(world)))
    return Run(scenario, played, judge(world), ledger_of(world.clients.values()))


# ---------------------------------------------------------------- as evidence


_APART = {
    name: 3_600_000 if name.endswith("_ms") else 3_600_000_000
    for name in ("time_ms", "sent_us", "settled_us", "read_us", "began_us")
}
"""Each run has an hour of its own: brokers of all runs have the same numbers, and so do their faults."""


def write_batch(runs: Sequence[Run], path: Path) -> Path:
    """All runs as one folder of evidence."""
    manifest = Manifest("sim", load_started_us=0, state=COMPLETE)
    manifest.topics = [
        {
            "name": f"{number}/{topic.name}",
            "partitions": 1,
            "configs": {"min.insync.replicas": str(topic.config.min_insync_replicas)},
        }
        for number, one in enumerate(runs)
        for topic in one.scenario.setup.topics
    ]
    folder = EvidenceFolder.create(path, manifest)
    for table, rows_of in (
        (LEDGER, lab_evidence._ledger),
        (READS, lab_evidence._reads),
        (EVENTS, lab_evidence._events),
        (FAULTS, lambda one: lab_evidence._faults(one) if one.played[0].after else ()),
        (RECORDS, lambda one: _of_partitions(one, lab_evidence._records)),
        (REPLICAS, lambda one: _of_partitions(one, lab_evidence._replicas)),
    ):
        writer = PartWriter(path / table.name, table, seconds_max=float("inf"))
        for number, one in enumerate(runs):
            for row in rows_of(one):
                row = {name: value for name, value in row.items() if value is not None}
                if "topic" in row:
                    row["topic"] = f"{number}/{row['topic']}"
                for name in ("producer", "consumer"):
                    if name in row:
                        row[name] = f"{number}/{row[name]}"
                for name, apart in _APART.items():
                    if isinstance(at := row.get(name), int):
                        row[name] = at + number * apart
                writer.write(row)
        writer.close()
    folder.release()
    return path


def _of_partitions(one: Run, rows: object) -> Iterator[dict[str, object]]:
    for partition in one.final.partitions:
        yield from rows(partition)  # type: ignore[operator]


# ---------------------------------------------------------------- two verdicts


def lab_facts(runs: Sequence[Run]) -> Facts:
    """What the lab found, as comparable facts."""
    facts: Facts = {
        kind: set() for kind in ("lost", "duplicated", "diverged", "rewritten", "reordered", "phantom")
    }
    for number, one in enumerate(runs):
        verdict = one.verdict
        facts["lost"] |= {(number, f["value"], _known(f["offset"])) for f in verdict.lost}
        facts["duplicated"] |= {
            (number, f["value"], f["offsets"][-1], len(f["offsets"])) for f in verdict.duplicated
        }
        facts["diverged"] |= {(number, f["offset"]) for f in verdict.diverged}
        facts["rewritten"] |= {(number, f["value"], f["offset"], f["consumer"]) for f in verdict.rewritten}
        facts["reordered"] |= {(number, f["value"]) for f in verdict.reordered}
        facts["phantom"] |= {(number, f["value"], f["offset"]) for f in verdict.phantom}
    return facts


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


def audit_facts(path: Path) -> Facts:
    """What the audit found, as the same facts."""
    facts: Facts = {
        kind: set() for kind in ("lost", "duplicated", "diverged", "rewritten", "reordered", "phantom")
    }
    rows = found_rows(path)
    for row in rows:
        number = int(row["topic"].partition("/")[0])
        kind, value, offset = row["anomaly"], row["value"], row["offset"]
        if kind == "lost":
            facts[kind].add((number, value, offset))
        elif kind == "duplicated":
            facts[kind].add((number, value, offset, row["count"]))
        elif kind == "diverged":
            facts[kind].add((number, offset))
        elif kind == "rewritten":
            facts[kind].add((number, value, offset, row["consumer"].partition("/")[2]))
        elif kind == "reordered":
            facts[kind].add((number, value))
        elif kind in ("phantom", "aborted read") and row["consumer"] is None:
            facts["phantom"].add((number, value, offset))
    return facts


def compare(path: Path, runs: Sequence[Run]) -> list[str]:
    """Where the two verdicts differ."""
    lab, audit = lab_facts(runs), audit_facts(path)
    return [
        f"{kind} {fact}: only the {'lab' if fact in lab[kind] else 'audit'} "
        f"({runs[int(str(fact[0]))].scenario.name}, {runs[int(str(fact[0]))].scenario.setup.generation})"
        for kind in lab
        for fact in sorted(lab[kind] ^ audit[kind], key=str)
    ]


__all__ = [
    "audit_facts",
    "catalogue_runs",
    "compare",
    "lab_facts",
    "random_run",
    "replace",
    "write_batch",
]
