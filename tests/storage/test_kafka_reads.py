"""Apache Kafka's own DumpLogSegments reads and verifies what is written here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bench.apache_kafka import tool_command
from bench.processes import PATIENCE_SECONDS
from tests.storage.batches import append, batch
from tests.storage.folders import TP, small, storage

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch
from tidelog.wire.compression import Compression

CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.ZSTD)

pytestmark = pytest.mark.slow


def dump(*arguments: str | Path, files: list[Path], gaps: bool = False) -> str:
    """What it says of the files. It complains of nothing, or only of ``gaps``, as compaction leaves them."""
    run = subprocess.run(
        [
            *tool_command("org.apache.kafka.tools.DumpLogSegments"),
            *arguments,
            "--files",
            ",".join(map(str, files)),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    harmless = r"^$|SLF4J|StatusLogger|log4j|^WARN" + r"|^Non-consecutive| is followed by " * gaps
    complaints = [line for line in run.stderr.splitlines() if not re.search(harmless, line)]
    assert not complaints
    return run.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of many segments: sizes, codecs and timestamps in every order, truncated once, closed cleanly."""
    path = tmp_path_factory.mktemp("kafka")
    states = ProducerStates()
    with storage(path, defaults=small(**{"segment.bytes": 20_000, "index.interval.bytes": 600})) as opened:
        one = opened.open(TP)
        one.restore_producers(states)
        sequence = 0
        for n in range(300):
            texts = [f"{n}/{m}" * (n % 40) for m in range(1 + n % 7)]
            sent = batch(
                *texts,
                timestamp=10_000 + (n * 7919) % 5_000,
                producer=n % 2 * 10 - 1,
                sequence=sequence if n % 2 else -1,
                compression=CODECS[n % len(CODECS)],
            )
            sequence += len(texts) * (n % 2)
            states.append(append(one, sent, epoch=n // 100)[0])
            if n == 150:
                one.truncate_to(one.end_offset - 100)
                one.restore_producers(states)
                sequence = next(e.last_sequence for e in states.entries() if e.producer_id == 9) + 1
        one.append_leader_change(LeaderEpoch(9))
        states.append(append(one, batch("last", producer=9, sequence=sequence), epoch=9)[0])
    return path / "topic-0"


def test_every_file_is_read_and_verified(folder: Path) -> None:
    """Batches, both indexes against the log, the producers' snapshots: no mismatch, nothing unknown."""
    files = sorted(path for path in folder.iterdir() if path.suffix)
    text = dump(files=files)
    batches = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert len(batches) > 200
    assert all("isvalid: true" in line for line in batches)
    bases = [int(line.split()[1]) for line in batches]
    lasts = [int(line.split()[3]) for line in batches]
    assert bases == [0, *(last + 1 for last in lasts[:-1])]
    assert text.count("Dumping ") == len(files)
    assert "producerId: 9 producerEpoch: 0" in text
    assert len(re.findall(r"^offset: ", text, re.MULTILINE)) > 50
    assert len(re.findall(r"^timestamp: ", text, re.MULTILINE)) > 20


def test_the_indexes_pass_kafkas_sanity_check(folder: Path) -> None:
    """The check that decides whether Kafka would rebuild them."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".index", ".timeindex"))
    text = dump("--index-sanity-check", files=files)
    assert text.count("passed sanity check") + text.count("is empty") == len(files)
