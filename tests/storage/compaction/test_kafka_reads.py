"""Apache Kafka's own DumpLogSegments reads and verifies compacted segments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.storage.compaction.compacting import compact, compacted, keyed
from tests.storage.folders import TP, storage
from tests.storage.test_kafka_reads import CODECS, dump

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch

pytestmark = pytest.mark.slow


def test_kafka_reads_compacted_segments(tmp_path: Path) -> None:
    """Batches that lost records, batches that lost them all, dated tombstones, indexes and the checkpoint."""
    settings = compacted(segment_bytes=20_000, index_interval_bytes=600)
    with storage(tmp_path, defaults=settings) as one:
        log, states = one.open(TP), ProducerStates()
        log.restore_producers(states)
        for n in range(400):
            values = [None if n % 9 == m else "v" * (n % 90) for m in range(1 + n % 5)]
            pairs = [(f"k{(n * 7 + m) % (40 + n)}", value) for m, value in enumerate(values)]
            sent = keyed(*pairs, producer=n, sequence=0, timestamp=50_000 + n, compression=CODECS[n % 4])
            states.append(log.append_as_leader(sent, LeaderEpoch(n // 100)))
        log.roll()
        assert compact(one, now_ms=90_000_000) == 1
        end = log.end_offset
    files = sorted(path for path in (tmp_path / "topic-0").iterdir() if path.suffix)
    text = dump("--print-data-log", files=files, gaps=True)
    batches = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert all("isvalid: true" in line for line in batches)
    counts = [int(re.search(r" count: (\d+)", line)[1]) for line in batches]  # type: ignore[index]
    lasts = [int(line.split()[3]) for line in batches]
    assert 0 in counts
    assert lasts == sorted(lasts)
    assert lasts[-1] == end - 1
    assert "deleteHorizonMs: OptionalLong[176400000]" in text
    found = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .* key: (\S+)", text)
    assert len(found) == sum(counts)
    assert len({key for *_, key in found}) == len(found)
    assert all(50_000 <= int(timestamp) < 50_500 for _, timestamp, _ in found)
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\ntopic 0 {end}\n"
