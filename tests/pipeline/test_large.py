"""Evidence that is large is read in another way, only as far as needed; what is found must not change."""

from pathlib import Path

import pytest
from bench.synthetic_evidence import Shape, make_evidence
from tests.pipeline.judged import judge_evidence

from tidelog.pipeline.audit.anomalies import AUDITS

pytestmark = [pytest.mark.long, pytest.mark.slow]

NARROWED = {"lost", "unseen", "duplicated", "diverged", "rewritten", "phantom", "damaged"}


def test_narrowed_reading_finds_exactly_what_was_planted(tmp_path: Path) -> None:
    """Out of segment files, with every question narrowed to the columns, replicas and offsets it needs, the
    audit finds each planted anomaly and nothing else."""
    expected = make_evidence(tmp_path, Shape.of(1)).expected()
    verdict = judge_evidence(tmp_path, audits=[audit for audit in AUDITS if audit.name in NARROWED])
    found = {name: sum(counts.values()) for name, counts in verdict.counts.items()}
    assert found == {name: count for name, count in expected.items() if name in NARROWED}
