"""Evidence that is large is read in another way, only as far as needed; what is found must not change."""

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from bench.synthetic_evidence import Shape, make_evidence
from tests.pipeline.judged import judge_evidence

from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.kernels.hashes import Ints
from tidelog.pipeline.audit.rounds import one, two
from tidelog.pipeline.audit.rounds.one import Summed

pytestmark = [pytest.mark.long, pytest.mark.slow]

SENDS = 50_000
NARROWED = {"lost", "unseen", "duplicated", "diverged", "rewritten", "phantom", "damaged"}


def test_narrowed_reading_finds_exactly_what_was_planted(tmp_path: Path) -> None:
    """Out of segment files, with every question narrowed to the columns, replicas and offsets it needs, the
    audit finds each planted anomaly and nothing else."""
    expected = make_evidence(tmp_path, Shape.of(1)).expected()
    verdict = judge_evidence(tmp_path, audits=[audit for audit in AUDITS if audit.name in NARROWED])
    found = {name: sum(counts.values()) for name, counts in verdict.counts.items()}
    assert found == {name: count for name, count in expected.items() if name in NARROWED}


@pytest.mark.parametrize("keyed", [True, False], ids=["with keys", "without keys"])
def test_only_what_differs_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """Anomalies are planted in one or two stretches of each partition. That nobody wrote down the keys which
    the log has makes no difference."""
    make_evidence(tmp_path, Shape.of(SENDS))
    if not keyed:
        for file in [*(tmp_path / "ledger").iterdir(), *(tmp_path / "reads").iterdir()]:
            table = pq.read_table(file)
            at = table.column_names.index("key")
            pq.write_table(table.set_column(at, "key", pa.nulls(len(table), pa.string())), file)
    seen = []

    def differing(context: Context, found: Summed, facts: frozenset[Need]) -> Ints:
        keys = one.differing(context, found, facts)
        seen.append((len(keys), len(found.log)))
        return keys

    monkeypatch.setattr(two, "differing", differing)
    assert judge_evidence(tmp_path).counts["lost"]["violation"] == 200
    ((different, all_),) = seen
    assert 0 < different <= all_ // 2
