"""Evidence of schema 1, which has sentences where schema 2 has rules, is judged as it always was.

The folders in `schema_1` were written by the last version that wrote schema 1.
"""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path

import pytest
from tests.pipeline.judged import judge_evidence

from tidelog.core.reasons import ElectionKind, StateWriteReason, TruncationRule
from tidelog.evidence.folder import Manifest
from tidelog.pipeline.audit.causes.rules import CauseRule
from tidelog.pipeline.audit.reasons import reason_of

SPECIMENS = Path(__file__).parent / "schema_1"

SENTENCES: dict[str, dict[str, StrEnum]] = {
    "truncated": {
        "to its own high watermark": TruncationRule.OWN_HIGH_WATERMARK,
        "epoch 3 ends at 17 on the leader": TruncationRule.EPOCH_END_ON_LEADER,
        "epoch 3 ends at 17 here": TruncationRule.EPOCH_END_HERE,
        "epoch 3 is unknown here: back to 2": TruncationRule.EPOCH_UNKNOWN,
        "the leader's log is shorter": TruncationRule.LEADER_LOG_SHORTER,
        "the leader's log starts at 17": TruncationRule.LEADER_LOG_STARTS_LATER,
    },
    "partition_state_written": {
        "first live in-sync replica": ElectionKind.CLEAN,
        "unclean election": ElectionKind.UNCLEAN,
        "preferred leader": ElectionKind.PREFERRED,
        "longest log of a majority": ElectionKind.MAJORITY,
        "2 is shutting down": ElectionKind.CONTROLLED_SHUTDOWN,
        "the partition is new": StateWriteReason.CREATED,
        "replica 2 is offline": StateWriteReason.REPLICA_OFFLINE,
        "asked by the leader": StateWriteReason.ISR_ASKED,
        "written by the leader": StateWriteReason.ISR_WRITTEN,
        "election by majority opened": StateWriteReason.BALLOT_OPENED,
    },
}
"""Every sentence that schema 1 could hold, and the rule that wrote it."""


YOUNGER = {
    ElectionKind.ELIGIBLE,
    ElectionKind.LAST_KNOWN_LEADER,
    ElectionKind.REASSIGNED,
    StateWriteReason.REASSIGNED,
    StateWriteReason.UNCLEAN_SHUTDOWN,
    StateWriteReason.ELIGIBLE_CLEARED,
}
"""Rules that came after schema 1: those of generation elr, and reassignment."""


def test_every_sentence_of_schema_1_is_one_rule() -> None:
    """Each rule had its sentence, and no sentence is taken for that of another rule."""
    wanted = [(event, text, rule) for event, rules in SENTENCES.items() for text, rule in rules.items()]
    assert {rule for _, _, rule in wanted} == {*TruncationRule, *ElectionKind, *StateWriteReason} - YOUNGER
    for event, text, rule in wanted:
        assert reason_of({"event": event, "cause": text, "rule": None}, 1) == (rule.value, text)


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        (
            "hw-loss-hw",
            CauseRule.TO_WATERMARK,
            "broker 1 truncated from 3 to 2 (to its own high watermark) at 16.563 s; "
            "broker 1 became leader of epoch 1 at 17.560 s, its log ending at 2 (first live in-sync replica)",
        ),
        ("unclean-election-epoch", CauseRule.ONLY_ONE, "(unclean election)"),
    ],
)
def test_evidence_of_schema_1_has_its_cause(tmp_path: Path, name: str, rule: CauseRule, words: str) -> None:
    """The same rule, the same story, as when it was written."""
    evidence = tmp_path / name
    shutil.copytree(SPECIMENS / name, evidence)
    assert Manifest.read(evidence).schema_version == 1
    verdict = judge_evidence(evidence)
    assert [cause["rule"] for cause in verdict.causes if cause["anomaly"] == "lost"] == [rule]
    (loss,) = verdict.examples["lost"]
    assert words in loss["cause"]
