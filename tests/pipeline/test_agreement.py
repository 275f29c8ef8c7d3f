"""Two verdicts about the same runs, reached in different ways by different code, are one verdict; and the
causes that the audit names are those that the events of the runs show.

`pytest --effort 100` compares thousands of random runs instead of a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.effort import tries
from tests.pipeline.ground_truth import cause_of_loss
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.simulated import (
    GENERATIONS,
    catalogue_runs,
    compare,
    lab_facts,
    random_run,
    write_batch,
)

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.pipeline.audit.causes.rules import CauseRule, kept_cause, truncation_cause
from tidelog.pipeline.audit.verdict import Verdict
from tidelog.scenario.run import Run

pytestmark = pytest.mark.timeout(tries(1200))

ISR = ("hw", "kip101", "epoch")
LOSSES: dict[str, list[tuple[tuple[str, ...], str, CauseRule]]] = {
    "hw-loss": [(("hw",), "c", CauseRule.TO_WATERMARK)],
    "hw-loss-chain": [(("hw",), "c", CauseRule.TO_WATERMARK)],
    "hw-divergence": [(("hw",), "c", CauseRule.TO_WATERMARK)],
    "hw-divergence-power": [(ISR, "b", CauseRule.UNSYNCED)],
    "hw-vanishing-read": [(("hw",), "x", CauseRule.TO_WATERMARK)],
    "isolate-leader-zone": [(GENERATIONS, "c d e", CauseRule.NOT_COPIED)],
    "isolate-leader-and-controller": [(GENERATIONS, "c d e", CauseRule.NOT_COPIED)],
    "crash-during-sync-acks-0": [(ISR, "c", CauseRule.UNCONFIRMED)],
    "crash-during-sync-acks-1": [(ISR, "c", CauseRule.NOT_COPIED)],
    "unclean-election": [(ISR, "c", CauseRule.ONLY_ONE)],
    "acks-0-loss": [(GENERATIONS, "b", CauseRule.UNCONFIRMED)],
    "acks-1-loss": [(GENERATIONS, "b", CauseRule.NOT_COPIED)],
    "kip-279-fast-failover": [(("hw", "kip101"), "b", CauseRule.NOT_COPIED)],
    "kip-966-unclean-shutdowns": [(ISR, "b", CauseRule.UNSYNCED)],
    "kip-966-last-replica-standing": [(ISR, "b", CauseRule.UNSYNCED)],
    "kafka-1647-lost-checkpoint": [(("hw",), "a b", CauseRule.TO_WATERMARK)],
    "kafka-3919-shorter-log-leads": [(ISR, "b", CauseRule.UNSYNCED)],
    "kafka-7128-stale-watermark": [(("hw", "kip101"), "a", CauseRule.OUT_OF_STEP)],
    "kafka-7395-zombie-follower": [(ISR, "b", CauseRule.NOT_COPIED)],
    "kafka-7415-empty-epoch": [
        (GENERATIONS, "x y", CauseRule.NOT_COPIED),
        (("hw",), "d", CauseRule.NOT_COPIED),
    ],
    "kafka-8836-isr-in-doubt": [(("hw", "kip101"), "c d", CauseRule.OUT_OF_STEP)],
    "kafka-14140-rebooted-replica": [
        (("epoch",), "a", CauseRule.UNSYNCED),
        (("epoch",), "b", CauseRule.OUT_OF_STEP),
    ],
}
"""Scenario → under which rules which records are lost, and why. What is not named here is not lost."""


@dataclass
class Judged:
    runs: list[Run]
    path: Path
    verdict: Verdict
    rows: list[dict[str, Any]]

    def run_of(self, row: dict[str, Any]) -> Run:
        return self.runs[int(row["topic"].partition("/")[0])]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Every known failure under every generation, and random schedules."""
    runs = catalogue_runs() + [random_run(number) for number in range(tries(60))]
    path = write_batch(runs, tmp_path_factory.mktemp("agreement") / "e")
    verdict = judge_evidence(path)
    return Judged(runs, path, verdict, found_rows(path))


def happened(run: Run) -> Iterator[object]:
    return (event for step in run.played for _, event in step.events)


def test_lab_and_audit_agree(judged: Judged) -> None:
    """They name the same values at the same offsets: lost, duplicated, diverged, rewritten, reordered,
    phantom."""
    assert compare(judged.path, judged.runs) == []
    lab = lab_facts(judged.runs)
    assert min(len(lab[kind]) for kind in ("lost", "duplicated", "diverged", "rewritten")) > 0
    # What these runs lose is known: a loss that nothing explains is a mistake of the causes.
    lost = [cause for cause in judged.verdict.causes if cause["anomaly"] == "lost"]
    unexplained = sum(cause["count"] for cause in lost if not cause["explained"])
    assert unexplained <= 0.02 * sum(cause["count"] for cause in lost)


def test_every_loss_of_the_catalogue_has_its_cause(judged: Judged) -> None:
    """Under each generation, each record that a scenario loses, by the rule that lost it."""
    wanted = {
        (name, generation, value): rule
        for name, losses in LOSSES.items()
        for generations, values, rule in losses
        for generation in generations
        for value in values.split()
    }
    found = {}
    for row in judged.rows:
        scenario = judged.run_of(row).scenario
        if row["anomaly"] == "lost" and scenario.name != "found":
            found[scenario.name, scenario.setup.generation, row["value"]] = row["rule"]
    assert found == wanted


WEAKER = {("kafka-14140-rebooted-replica", "epoch", "b"): CauseRule.OUT_OF_STEP}
"""Broker 1 lost b with its power, and was elected without it. No event shows that it had fetched b: that it
was in the ISR and had no b when it was elected is all that the evidence says."""


def test_every_cause_of_the_catalogue_is_what_the_simulator_did(judged: Judged) -> None:
    """By the logs of all replicas after each step, which the audit never sees."""
    checked = set()
    for row in judged.rows:
        run = judged.run_of(row)
        name, generation = run.scenario.name, run.scenario.setup.generation
        if row["anomaly"] == "lost" and name != "found":
            truth = WEAKER.get((name, generation, row["value"])) or cause_of_loss(run, row["value"])
            assert row["rule"] == truth, (name, generation, row)
            checked.add(truth)
    assert len(checked) >= 6


def test_a_cause_is_a_rule_that_fired(judged: Judged) -> None:
    """A truncation or an unclean election that is named as a cause is among the events of that run; so under
    hw no cause speaks of epochs, and under epoch and majority none of the high watermark."""
    by_cut = {*map(truncation_cause, TruncationRule), *map(kept_cause, TruncationRule)}
    checked = set()
    for row in judged.rows:
        rule, run = row["rule"], judged.run_of(row)
        if rule in by_cut:
            cuts = {event.rule for event in happened(run) if isinstance(event, e.Truncated)}
            assert rule in {*map(truncation_cause, cuts), *map(kept_cause, cuts)}, row
            checked.add(rule)
        if rule in (CauseRule.UNCLEAN, CauseRule.ONLY_ONE):
            writes = [event for event in happened(run) if isinstance(event, e.PartitionStateWritten)]
            assert any(write.reason is ElectionKind.UNCLEAN for write in writes), row
            checked.add(rule)
        generation = run.scenario.setup.generation
        if generation == "hw":
            assert rule not in (CauseRule.TO_EPOCH, CauseRule.KEPT_BY_EPOCH), row
        if generation in ("epoch", "majority"):
            assert rule not in (CauseRule.TO_WATERMARK, CauseRule.KEPT_BY_WATERMARK), row
    assert checked >= {CauseRule.TO_WATERMARK, CauseRule.ONLY_ONE}
